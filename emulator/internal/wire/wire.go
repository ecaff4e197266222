// Package wire holds what the emulated services share: modelled errors and how a request reaches a service.
package wire

import (
	"encoding/json"
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

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an error of status 400.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Codec turns bodies into values and back, so that a service does not know which encoding a client speaks.
type Codec interface {
	Unmarshal(data []byte, v any) error
	Marshal(v any) ([]byte, error)
	ContentType() string
}

// Request is one call, decoded as far as the transport can.
type Request struct {
	Operation string // as GetRecords
	Body      []byte
	Codec     Codec
	HTTP      *http.Request
}

// JSON is the encoding of awsJson1.0 and 1.1; its value is the content type.
type JSON string

func (JSON) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func (JSON) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (j JSON) ContentType() string              { return string(j) }
