// Package wire holds what the emulated services share: errors as they go over the wire, encodings, and how a service
// reports what a request used.
//
// A service is an http.Handler. It finds its operation in the X-Amz-Target header, reads the body, answers with
// [WriteResult] or [WriteError], and calls [Charge] for the capacity that the request used. It reads the clock with
// time.Now (virtual inside testing/synctest), starts no goroutines and holds no mutex while it waits or writes.
package wire

import (
	"context"
	"fmt"
	"net/http"
)

// Error is a modelled AWS error as it goes over the wire.
type Error struct {
	Status  int            // HTTP status
	Code    string         // the shape's name, as ResourceNotFoundException
	Message string         // what is wrong, naming the thing and the value
	Fields  map[string]any // further members of the error shape, as Item or CancellationReasons
}

// Error is the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an error of status 400.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Usage is what one request cost.
type Usage struct {
	ReadUnits, WriteUnits float64
}

type usageKey struct{}

// WithUsage gives a request's context a place where the service notes what the request used.
func WithUsage(ctx context.Context, u *Usage) context.Context {
	return context.WithValue(ctx, usageKey{}, u)
}

type clientKey struct{}

// WithClient says who asks.
func WithClient(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, clientKey{}, name)
}

// ClientOf is the name given to WithClient, or empty.
func ClientOf(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}

// Charge adds to the usage of the request that ctx belongs to; without one it does nothing. A request is served by one
// goroutine, so it needs no lock.
func Charge(ctx context.Context, readUnits, writeUnits float64) {
	if u, ok := ctx.Value(usageKey{}).(*Usage); ok {
		u.ReadUnits += readUnits
		u.WriteUnits += writeUnits
	}
}
