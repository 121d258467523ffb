// Package web serves pages.
package web

import (
	"fmt"
	"net/http"
	mrand "math/rand"
	. "strings"
	_ "embed"
)

// MaxConns limits a server.
const MaxConns = 10

const (
	// StateIdle waits.
	StateIdle = iota
	stateBusy
)

var defaultServer, spare = New("x"), &Server{}

// Server answers requests.
type Server struct {
	http.Handler
	*logger
	Name, addr string `json:"name"`
	routes     map[string]Route
}

type (
	// Route is a path.
	Route interface {
		fmt.Stringer
		Match(path string) (bool, error)
	}
	ID    = int64
	Pairs[K comparable, V any] []Pair[K, V]
)

// New makes a server.
func New(name string, opts ...func(*Server)) *Server {
	s := &Server{Name: name, addr: ":80"}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Serve never returns.
func (s *Server) Serve(limit int) (n int, err error) {
	type local struct{ hits int }
	handler := func(path string) error {
		if route, ok := s.routes[path]; ok {
			return route.Match(path)
		}
		return nil
	}
	s.Name = ToUpper(s.addr)
	n++
	switch v := s.Handler.(type) {
	case *Server:
		go v.Serve(mrand.Int())
	}
	return n, handler(s.Name)
}

func (p Pairs[K, V]) Len() int { return len(p) }
