// Command standin is the emulator as a container of LocalStack or of DynamoDB Local would be, as far as Kinesis and
// DynamoDB go: so that code that starts those can be run where their images cannot be had (images.sh). It takes its settings
// from the environment and ignores its arguments, because tests pass those of the real images ("-jar DynamoDBLocal.jar").
//
//	STANDIN_PORT   the port, on every address (default 4566)
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardlease/shardlease/emulator"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}

func run() error {
	// Process 1 of a container gets no signal that it does not ask for: without this, to stop it would take the ten
	// seconds until it is killed.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	server := &http.Server{
		Addr:              ":" + cmp.Or(os.Getenv("STANDIN_PORT"), "4566"),
		Handler:           handler(emulator.New()),
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: 10 * time.Second,
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		<-ctx.Done()
		_ = server.Close() // ends open subscriptions, too, for which Shutdown would wait
	}()
	fmt.Println("shardlease's emulator, standing in for another server, on", server.Addr)
	fmt.Println("Ready.") // the line that some tests wait for
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler adds the health check of LocalStack. DynamoDB Local's, a GET that is a bad request, needs nothing.
func handler(services http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_localstack/health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"services":{"dynamodb":"running","kinesis":"running"},"edition":"shardlease stand-in"}`) // a client that is gone needs no answer
	})
	mux.Handle("/", services)
	return mux
}
