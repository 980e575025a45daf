package goqueue

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"google.golang.org/grpc"

	pb "goqueue/goqueuev1"
)

// Client is a connection to a broker, and what is made of it.
type Client struct {
	connection *connection
	mu         sync.Mutex
	own        *Producer
}

// New returns a client. It connects with the first call.
func New(options Options) (*Client, error) {
	connection, err := connect(options)
	if err != nil {
		return nil, err
	}
	return &Client{connection: connection}, nil
}

// Publish publishes one message, and waits until it is stored: exactly once, whatever becomes of the connection. If the
// context ends before, the message may be stored all the same.
func (c *Client) Publish(ctx context.Context, topic string, message OutgoingMessage) (Receipt, error) {
	c.mu.Lock()
	if c.own == nil {
		c.own = c.Producer(ProducerOptions{})
	}
	own := c.own
	c.mu.Unlock()
	delivery, err := own.Send(ctx, topic, message)
	if err != nil {
		return Receipt{}, err
	}
	return delivery.Receipt(ctx)
}

// Producer returns a producer that sends in the background, for throughput. Close it.
func (c *Client) Producer(options ProducerOptions) *Producer {
	return newProducer(c.connection, options)
}

// TransactionalProducer returns a producer of transactions. The id must be the same after a restart of this program, and
// no other's.
func (c *Client) TransactionalProducer(transactionalID string, options TransactionalOptions) *TransactionalProducer {
	return newTransactionalProducer(c.connection, transactionalID, options)
}

// Group returns a member of a group. It joins with the first read; close it to leave.
func (c *Client) Group(group string, topics []string, options GroupOptions) *Group {
	return newGroup(c.connection, group, topics, options)
}

// Reader returns a reader of a topic by offset or time, without a group. Close it.
func (c *Client) Reader(topic string, options ReaderOptions) *Reader {
	return newReader(c.connection, topic, options)
}

// Conn returns the connection for clients as generated, with the key and tenant of this client:
// goqueuev1.NewOffsetServiceClient(client.Conn()). [ErrorOf] reads their errors.
func (c *Client) Conn() grpc.ClientConnInterface { return c.connection.grpc }

// Request calls an endpoint of docs/http.md whose request and answer are JSON. A body of nil is none; the answer is
// decoded into a pointer, or dropped for nil. Reads are repeated after passing failures.
func (c *Client) Request(ctx context.Context, method, path string, body, answer any) error {
	request := &pb.CallRequest{Method: method, Path: path}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return invalid("the body cannot be encoded: %v", err)
		}
		request.Body = string(text)
	}
	make := call[pb.CallRequest, pb.CallResponse]
	if method == "GET" {
		make = repeat[pb.CallRequest, pb.CallResponse]
	}
	found, err := make(ctx, c.connection, c.connection.admin.Call, request)
	if err != nil || answer == nil {
		return err
	}
	if !strings.Contains(found.ContentType, "json") {
		return invalid("%s %s answers %s, which is not JSON", method, path, found.ContentType)
	}
	return json.Unmarshal(found.Body, answer)
}

// Close closes the connection. Close producers and members before.
func (c *Client) Close() error {
	c.mu.Lock()
	own := c.own
	c.mu.Unlock()
	if own != nil {
		own.core.close()
	}
	c.connection.close()
	return c.connection.grpc.Close()
}
