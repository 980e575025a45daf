package goqueue_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"goqueue"
)

var (
	httpPort  = regexp.MustCompile(`https?://[^:]+:(\d+)`)
	rpcListen = regexp.MustCompile(`^gRPC\s+\S+:(\d+)`)
)

func program() string {
	if given := os.Getenv("GOQUEUE"); given != "" {
		return given
	}
	path, _ := filepath.Abs("../../.venv/bin/goqueue")
	return path
}

// broker is a real broker in a process of its own, which can be killed and started again.
type broker struct {
	t         *testing.T
	directory string
	options   []string
	http, rpc string
	process   *exec.Cmd
}

func startBroker(t *testing.T, options ...string) *broker {
	t.Helper()
	b := &broker{t: t, directory: t.TempDir(), options: options, http: "0", rpc: "0"}
	b.start()
	t.Cleanup(func() { b.end(syscall.SIGTERM) })
	return b
}

// address is HOST:PORT of gRPC.
func (b *broker) address() string { return "localhost:" + b.rpc }

func (b *broker) start() {
	b.t.Helper()
	arguments := []string{"serve", "--data-dir", filepath.Join(b.directory, "data"), "--port", b.http, "--grpc-port", b.rpc}
	b.process = exec.Command(program(), append(arguments, b.options...)...)
	output, err := b.process.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
	var said []string
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		line := lines.Text()
		said = append(said, line)
		if found := httpPort.FindStringSubmatch(line); found != nil && b.http == "0" {
			b.http = found[1]
		}
		if found := rpcListen.FindStringSubmatch(line); found != nil {
			b.rpc = found[1]
		}
		if strings.HasPrefix(line, "^C") {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return
		}
	}
	b.t.Fatalf("the broker did not start:\n%s", strings.Join(said, "\n"))
}

func (b *broker) end(signal os.Signal) {
	_ = b.process.Process.Signal(signal)
	_ = b.process.Wait() // a killed process ends with an error
}

func (b *broker) client(options goqueue.Options) *goqueue.Client {
	b.t.Helper()
	options.Address = b.address()
	client, err := goqueue.New(options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = client.Close() })
	return client
}

// within is the context of a test.
func within(t *testing.T, most time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code goqueue.Code) *goqueue.Error {
	t.Helper()
	var failure *goqueue.Error
	if !errors.Is(err, code) || !errors.As(err, &failure) {
		t.Fatalf("%v is not %s", err, code)
	}
	return failure
}

// read returns what a topic holds now.
func read(ctx context.Context, t *testing.T, client *goqueue.Client, topic string, options goqueue.ReaderOptions) []*goqueue.Message {
	t.Helper()
	options.UntilNow = true
	reader := client.Reader(topic, options)
	defer reader.Close()
	var found []*goqueue.Message
	for message, err := range reader.All(ctx) {
		must(t, err)
		found = append(found, message)
	}
	return found
}

func valuesOf(messages []*goqueue.Message) []string {
	var values []string
	for _, message := range messages {
		values = append(values, string(message.Value))
	}
	return values
}
