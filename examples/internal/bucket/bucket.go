// Package bucket answers conditional puts as S3 does, in memory: GET and PUT of objects, If-Match and If-None-Match.
package bucket

import (
	"crypto/md5" // S3's ETag of an object that was put in one piece
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Bucket is an http.Handler; the path is the key. Its zero value is empty.
type Bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
}

// ServeHTTP serves GET and PUT.
func (b *Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		b.mu.Lock()
		body, there := b.objects[r.URL.Path]
		b.mu.Unlock()
		if !there {
			http.Error(w, "NoSuchKey", http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", etag(body))
		_, _ = w.Write(body)
	case http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if status := b.put(r, body); status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		w.Header().Set("ETag", etag(body))
	default:
		http.Error(w, "MethodNotAllowed", http.StatusMethodNotAllowed)
	}
}

// put compares and writes in one step, which is all that a fence needs of a store.
func (b *Bucket) put(r *http.Request, body []byte) (status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, there := b.objects[r.URL.Path]
	if want := r.Header.Get("If-Match"); want != "" {
		if !there {
			return http.StatusNotFound
		}
		if want != etag(now) {
			return http.StatusPreconditionFailed
		}
	}
	if r.Header.Get("If-None-Match") == "*" && there {
		return http.StatusPreconditionFailed
	}
	if b.objects == nil {
		b.objects = map[string][]byte{}
	}
	b.objects[r.URL.Path] = body
	return http.StatusOK
}

func etag(body []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(body)) }
