package goqueue

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	pb "goqueue/goqueuev1"
)

const (
	version      = "0.1.0"
	messageBytes = 32 << 20
	firstDelay   = 50 * time.Millisecond
	longestDelay = 5 * time.Second
	// lastTry is the time that is kept for the last of repeated calls.
	lastTry = 100 * time.Millisecond
)

// Options of a client. The zero value is for a broker on this machine.
type Options struct {
	// Address is HOST:PORT of the broker's gRPC listener. Default: GOQUEUE_GRPC_ADDRESS, or 127.0.0.1:9090.
	Address string
	// APIKey is sent with each call. Default: GOQUEUE_API_KEY, or the text of the file GOQUEUE_API_KEY_FILE.
	APIKey string
	// Tenant is for operators. Default: GOQUEUE_TENANT.
	Tenant string
	// TLS turns it on. Default: off, or with the authority of the file GOQUEUE_CA_FILE.
	TLS *tls.Config
	// Timeout is the maximum time of a call with its retries, if its context has no earlier deadline. Default: 30 s.
	Timeout time.Duration
	// DialOptions are added to those of this client.
	DialOptions []grpc.DialOption
}

// connection is the channel to the broker: TLS, keys, deadlines, and retries of calls that may be repeated.
type connection struct {
	grpc    *grpc.ClientConn
	timeout time.Duration
	// open ends when the client is closed.
	open  context.Context
	close context.CancelFunc

	topics       pb.TopicServiceClient
	publishing   pb.PublishServiceClient
	consuming    pb.ConsumeServiceClient
	acks         pb.AckServiceClient
	transactions pb.TransactionServiceClient
	admin        pb.AdminServiceClient
}

func connect(options Options) (*connection, error) {
	key, err := apiKey(options.APIKey)
	if err != nil {
		return nil, err
	}
	channel, err := channelCredentials(options.TLS)
	if err != nil {
		return nil, err
	}
	var pairs []string
	if key != "" {
		pairs = append(pairs, "authorization", "Bearer "+key)
	}
	if tenant := firstOf(options.Tenant, os.Getenv("GOQUEUE_TENANT")); tenant != "" {
		pairs = append(pairs, "x-tenant", tenant)
	}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(channel),
		grpc.WithUserAgent("goqueue-go/" + version),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytes), grpc.MaxCallSendMsgSize(messageBytes)),
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, more ...grpc.CallOption,
		) error {
			return invoke(metadata.AppendToOutgoingContext(ctx, pairs...), method, request, answer, cc, more...)
		}),
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, more ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			return stream(metadata.AppendToOutgoingContext(ctx, pairs...), desc, cc, method, more...)
		}),
	}, options.DialOptions...)
	address := firstOf(options.Address, os.Getenv("GOQUEUE_GRPC_ADDRESS"), "127.0.0.1:9090")
	channelTo, err := grpc.NewClient(address, dial...)
	if err != nil {
		return nil, invalid("address %q cannot be used: %v", address, err)
	}
	c := &connection{grpc: channelTo, timeout: options.Timeout}
	if c.timeout == 0 {
		c.timeout = 30 * time.Second
	}
	c.open, c.close = context.WithCancel(context.Background())
	c.topics = pb.NewTopicServiceClient(channelTo)
	c.publishing = pb.NewPublishServiceClient(channelTo)
	c.consuming = pb.NewConsumeServiceClient(channelTo)
	c.acks = pb.NewAckServiceClient(channelTo)
	c.transactions = pb.NewTransactionServiceClient(channelTo)
	c.admin = pb.NewAdminServiceClient(channelTo)
	return c, nil
}

func firstOf(given ...string) string {
	for _, one := range given {
		if one != "" {
			return one
		}
	}
	return ""
}

func apiKey(given string) (string, error) {
	key, file := firstOf(given, os.Getenv("GOQUEUE_API_KEY")), os.Getenv("GOQUEUE_API_KEY_FILE")
	if key != "" || file == "" {
		return key, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("goqueue: the file of GOQUEUE_API_KEY_FILE cannot be read: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func channelCredentials(config *tls.Config) (credentials.TransportCredentials, error) {
	if config != nil {
		return credentials.NewTLS(config), nil
	}
	file := os.Getenv("GOQUEUE_CA_FILE")
	if file == "" {
		return insecure.NewCredentials(), nil
	}
	config, err := TLSFiles(file, "", "")
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

// TLSFiles returns a configuration with the authority that signed the broker's certificate, and the certificate and key
// that this client presents. An empty path leaves the part out; without an authority, those of the system count.
func TLSFiles(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("goqueue: the certificate of the authority cannot be read: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("goqueue: %s has no certificate in PEM", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("goqueue: the certificate of this client cannot be used: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

type method[Q, A any] func(context.Context, *Q, ...grpc.CallOption) (*A, error)

// call makes one call within the time of the client.
func call[Q, A any](ctx context.Context, c *connection, method method[Q, A], request *Q) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return once(ctx, c, method, request)
}

// repeat makes a call again after passing failures, until the time is over.
func repeat[Q, A any](ctx context.Context, c *connection, method method[Q, A], request *Q) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var wait backoff
	isUnsure := false
	for {
		answer, err := once(ctx, c, method, request)
		if err == nil {
			return answer, nil
		}
		failure := ErrorOf(err)
		isUnsure = isUnsure || failure.Unsure
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline) - lastTry
		if !failure.IsTransient() || ctx.Err() != nil || left <= failure.RetryAfter {
			failure.Unsure = isUnsure
			return nil, failure
		}
		if pause(ctx, min(wait.next(failure), left)) != nil {
			return nil, ErrorOf(ctx.Err())
		}
	}
}

func once[Q, A any](ctx context.Context, c *connection, method method[Q, A], request *Q) (*A, error) {
	if err := c.refuseIfClosed(); err != nil {
		return nil, err
	}
	answer, err := method(ctx, request)
	if err == nil {
		return answer, nil
	}
	if closed := c.refuseIfClosed(); closed != nil {
		return nil, closed
	}
	return nil, ErrorOf(err)
}

func (c *connection) refuseIfClosed() error {
	if c.open.Err() != nil {
		return &Error{Code: ErrClientClosed, Message: "this client is closed", Hint: "make another one"}
	}
	return nil
}

// backoff is exponential with full jitter, and never less than the broker asked for.
type backoff struct{ attempts int }

func (b *backoff) next(failure *Error) time.Duration {
	most := min(longestDelay, firstDelay<<min(b.attempts, 20))
	b.attempts++
	return min(failure.RetryAfter, time.Minute) + rand.N(most)
}

func (b *backoff) reset() { b.attempts = 0 }

// pause waits, and returns an error if the context ends before.
func pause(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
