package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Codec turns bodies into values and back, so that a service does not know which encoding a client speaks.
type Codec interface {
	// Unmarshal decodes data into the struct that v points to and refuses members that the struct does not have.
	Unmarshal(data []byte, v any) error
	// Marshal encodes v.
	Marshal(v any) ([]byte, error)
	// ContentType is the media type of what Marshal gives.
	ContentType() string
}

// JSON is the encoding of awsJson1.0 and 1.1; its value is the content type.
type JSON string

// The two JSON dialects: DynamoDB speaks the first, Kinesis the second. They differ in their name only.
const (
	JSON10 JSON = "application/x-amz-json-1.0"
	JSON11 JSON = "application/x-amz-json-1.1"
)

// JSONAppender is implemented by answers that know a quicker way to their JSON than encoding/json.
type JSONAppender interface {
	AppendJSON(to []byte) []byte
}

// Unmarshal decodes exactly one JSON object; an empty body counts as {}.
func (JSON) Unmarshal(data []byte, v any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if own, ok := v.(JSONDecoder); ok {
		scanner := NewScanner(data)
		if err := own.DecodeJSON(scanner); err != nil {
			return err
		}
		return scanner.End()
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the request's JSON object")
	}
	return nil
}

// Marshal encodes v; nil is an empty body.
func (JSON) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case JSONAppender:
		return v.AppendJSON(nil), nil
	}
	return json.Marshal(v)
}

// ContentType is the dialect itself.
func (j JSON) ContentType() string { return string(j) }

// CodecFor chooses among the codecs that a service speaks the one for a request's content type; the first serves requests
// without one.
func CodecFor(contentType string, spoken ...Codec) (Codec, *Error) {
	if contentType == "" {
		return spoken[0], nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = contentType
	}
	want := make([]string, len(spoken))
	for i, codec := range spoken {
		if want[i] = codec.ContentType(); want[i] == kind {
			return codec, nil
		}
	}
	return nil, &Error{
		Status: http.StatusUnsupportedMediaType, Code: "UnsupportedMediaTypeException",
		Message: fmt.Sprintf("content type %q, want %s", contentType, strings.Join(want, " or ")),
	}
}

// Decode fills the struct that v points to from a request's body. The error is the service's SerializationException and
// names the member at fault.
func Decode(codec Codec, body []byte, v any) *Error {
	err := codec.Unmarshal(body, v)
	if err == nil {
		return nil
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Errorf("SerializationException", "member %s of the request is not known to the emulator", name)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Errorf("SerializationException", "member %s cannot be a JSON %s, want %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return Errorf("SerializationException", "decode the request: %v", err)
}

// WriteResult answers 200 with v, nil being an empty body.
func WriteResult(w http.ResponseWriter, codec Codec, v any) {
	body, err := codec.Marshal(v)
	if err != nil {
		WriteError(w, codec, "", &Error{Status: http.StatusInternalServerError, Code: "InternalFailure", Message: "encode the answer: " + err.Error()})
		return
	}
	write(w, codec, http.StatusOK, body)
}

// WriteError answers with a modelled error; namespace is what the service puts before its code, as
// "com.amazonaws.dynamodb.v20120810#".
func WriteError(w http.ResponseWriter, codec Codec, namespace string, e *Error) {
	fields := map[string]any{"__type": namespace + e.Code, "message": e.Message}
	maps.Copy(fields, e.Fields)
	body, err := codec.Marshal(fields)
	if err != nil { // a field that cannot be encoded: the code and the message can
		body, _ = codec.Marshal(map[string]any{"__type": namespace + e.Code, "message": e.Message})
	}
	if r, ok := w.(CodeSetter); ok {
		r.SetCode(e.Code)
	}
	write(w, codec, e.Status, body)
}

func write(w http.ResponseWriter, codec Codec, status int, body []byte) {
	w.Header().Set("Content-Type", codec.ContentType())
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if own, ok := w.(BodySetter); ok {
		own.SetBody(body)
		return
	}
	_, _ = w.Write(body) // the peer may be gone
}
