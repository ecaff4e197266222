package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/shardlease/shardlease/checkpoint"
)

// state is the object of one lease. Every version differs from every other, since the token or the position has moved on, so no
// ETag ever comes back.
type state struct {
	Token    int64                             `json:"token"` // of the owner that wrote it
	Position checkpoint.ExtendedSequenceNumber `json:"position"`
	Totals   map[string]int64                  `json:"totals"`
}

// errChanged is what a put fails with if the object is no longer the one it was based on.
var errChanged = errors.New("the object has changed")

// store reads and writes objects of an S3-like store. S3's own client has the same two: GetObject, and PutObject with IfMatch
// or IfNoneMatch.
type store struct {
	client *http.Client
	url    string
}

// get reads an object. Without one, etag is empty.
func (s store) get(ctx context.Context, key string) (st state, etag string, err error) {
	resp, err := s.send(ctx, http.MethodGet, key, nil, nil)
	if err != nil {
		return state{}, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return state{}, "", err
	case resp.StatusCode == http.StatusNotFound:
		return state{}, "", nil
	case resp.StatusCode != http.StatusOK:
		return state{}, "", fmt.Errorf("get %s: %s", key, resp.Status)
	}
	if err := json.Unmarshal(body, &st); err != nil {
		return state{}, "", fmt.Errorf("get %s: %w", key, err)
	}
	return st, resp.Header.Get("ETag"), nil
}

// put replaces the object that has this ETag, or makes one if etag is empty. After an error other than [errChanged] it may have
// landed.
func (s store) put(ctx context.Context, key string, st state, etag string) (newTag string, err error) {
	body, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	condition := http.Header{"If-Match": {etag}}
	if etag == "" {
		condition = http.Header{"If-None-Match": {"*"}}
	}
	resp, err := s.send(ctx, http.MethodPut, key, body, condition)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.Header.Get("ETag"), nil
	// 409 is S3's answer when two conditional puts meet, 404 that to If-Match without an object.
	case http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound:
		return "", errChanged
	}
	return "", fmt.Errorf("put %s: %s", key, resp.Status)
}

func (s store) send(ctx context.Context, method, key string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+"/"+url.PathEscape(key), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	return s.client.Do(req)
}
