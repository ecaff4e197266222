package emulator

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listen serves on addr, as "127.0.0.1:4567" (port 0 takes a free one), over HTTP/1.1 and HTTP/2 without TLS, Kinesis in JSON or CBOR as the
// client asks: what the AWS SDKs, the one for Java included, speak without being told. It returns
// the address to give clients as their endpoint (AWS_ENDPOINT_URL), which is 127.0.0.1 where addr means every address, and the
// function that closes the port, breaks what is open and waits until both are done; it may be called more than once. Clients need
// credentials, any will do: the access key id is their name for [Rule] and [CountKey].
func (s *Server) Listen(addr string) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", addr) //nolint:noctx // to open a port of this machine is no wait
	if err != nil {
		return "", nil, fmt.Errorf("listen for emulator clients on %s: %w", addr, err)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	var open sync.WaitGroup
	server := &http.Server{
		Protocols:         &protocols,
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Done()
			s.ServeHTTP(w, r)
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // http.ErrServerClosed, or the listener broke: either way the port is closed
	}()
	return "http://" + reachable(l.Addr().String()), sync.OnceFunc(func() {
		_ = server.Close() // ends the requests' contexts, by which handlers end
		<-done
		open.Wait()
	}), nil
}

// reachable is an address for clients: who listens on every address of a machine, as "0.0.0.0:4567", is on none that can be asked.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}
