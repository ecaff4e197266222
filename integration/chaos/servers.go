//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// service is one of the two that a worker needs.
type service string

const (
	table  service = "the table"
	stream service = "the stream"
)

// serverLimit is how long a server may take to start or to stop. On a busy machine kinesis-local needs a quarter of a minute.
const serverLimit = 90 * time.Second

// server is a foreign server, which keeps its data in a folder and can be started again. Its port changes when it is.
type server struct {
	name    string
	data    string // folder
	log     string // file
	command func(port, tlsPort int, data string) *exec.Cmd

	port atomic.Int64 // 0: it is down
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
}

// newServers are the two servers, as npm has installed them in that folder.
func newServers(packages, work string) (dynalite, kinesisLocal *server) {
	modules := filepath.Join(packages, "node_modules")
	dynalite = &server{name: "dynalite", data: filepath.Join(work, "table"), log: filepath.Join(work, "dynalite.log"), command: func(port, _ int, data string) *exec.Cmd {
		return exec.Command("node", "--require", filepath.Join(packages, "aborts.js"), filepath.Join(modules, "dynalite", "cli.js"),
			"--host", "127.0.0.1", "--port", strconv.Itoa(port), "--path", data, "--createTableMs", "50", "--updateTableMs", "50", "--deleteTableMs", "50")
	}}
	kinesisLocal = &server{name: "kinesis-local", data: filepath.Join(work, "stream"), log: filepath.Join(work, "kinesis-local.log"), command: func(port, tlsPort int, data string) *exec.Cmd {
		cmd := exec.Command("node", filepath.Join(modules, "kinesis-local", "main.js"))
		cmd.Env = append(os.Environ(), "KINESIS_MOCK_CERT_PATH="+filepath.Join(modules, "kinesis-local", "server.json"),
			fmt.Sprint("KINESIS_MOCK_PLAIN_PORT=", port), fmt.Sprint("KINESIS_MOCK_TLS_PORT=", tlsPort), "SHARD_LIMIT=1000", "LOG_LEVEL=ERROR",
			"CREATE_STREAM_DURATION=50ms", "SPLIT_SHARD_DURATION=50ms", "MERGE_SHARDS_DURATION=50ms",
			// It saves every so often, which stops it for a moment, and at SIGTERM.
			"SHOULD_PERSIST_DATA=true", "PERSIST_PATH="+data, "PERSIST_INTERVAL=60s")
		return cmd
	}}
	return dynalite, kinesisLocal
}

// address is where it listens, and whether it does.
func (s *server) address() (string, bool) {
	port := s.port.Load()
	return fmt.Sprintf("127.0.0.1:%d", port), port != 0
}

// start returns when the server answers.
func (s *server) start(ctx context.Context) error {
	if err := os.MkdirAll(s.data, 0o750); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	ports, err := freePorts(2)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := s.command(ports[0], ports[1], s.data)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	done := make(chan struct{})
	s.cmd, s.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // how a killed process ended says nothing
	}()
	ctx, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	for !answers(ctx, ports[0]) {
		select {
		case <-done:
			return fmt.Errorf("start %s: it ended at once; see %s", s.name, s.log)
		case <-ctx.Done():
			return fmt.Errorf("start %s: it does not answer: %w", s.name, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.port.Store(int64(ports[0]))
	return nil
}

// stop sends the signal and returns when the server is gone.
func (s *server) stop(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	s.port.Store(0)
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(serverLimit):
		_ = s.cmd.Process.Kill() // it fails only if the process is gone
		<-s.done
		return fmt.Errorf("stop %s: it did not end within %v of %v", s.name, serverLimit, sig)
	}
}

func answers(ctx context.Context, port int) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return true
}

// freePorts are ports that nobody listens on now.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }()
		a, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("find a free port: %v is no TCP address", l.Addr())
		}
		ports = append(ports, a.Port)
	}
	return ports, nil
}
