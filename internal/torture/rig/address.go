package rig

import (
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/fencegate/fencegate/internal/torture/client"
	"github.com/fencegate/fencegate/internal/torture/link"
)

// LockNames returns the names of the lock's servers: several with redlock, none where the lock is in the gateway.
func (r *Rig) LockNames() []string {
	switch s := r.Spec; {
	case s.Lock == "memory":
		return nil
	case s.Lock == "redlock":
		names := make([]string, s.Nodes)
		for i := range names {
			names[i] = "lock-" + strconv.Itoa(i)
		}
		return names
	case isRedis(s.Lock) == isRedis(s.Store) && isPostgres(s.Lock) == isPostgres(s.Store):
		return []string{"server"}
	}
	return []string{"lock"}
}

// StoreName returns the name of the store's server, empty where the store is in the gateway.
func (r *Rig) StoreName() string {
	if !isRedis(r.Spec.Store) && !isPostgres(r.Spec.Store) {
		return ""
	}
	if names := r.LockNames(); len(names) == 1 && names[0] == "server" {
		return "server"
	}
	return "store"
}

// Switch makes the server at addr ("127.0.0.1:PORT") the one that a name stands for, such as a standby that was
// promoted: it moves the link of that name, and Access and Leaks go there, too. Without links, clients
// stay where they are. An empty addr cuts the link, and leaves the rest as it is. It is safe for concurrent use.
func (r *Rig) Switch(name, addr string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.to[name]; !ok {
		return fmt.Errorf("there is no server %q in this rig", name)
	}
	if addr != "" {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("switch %s: %w", name, err)
		}
		r.to[name] = addr
	}
	if l := r.Links[name]; l != nil {
		l.MoveTo(addr)
	}
	return nil
}

// Server returns the address of the server that a name stands for now, past its link; empty if there is none.
func (r *Rig) Server(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to[name]
}

// name notes where a server is, and puts a link before it if that is wanted.
func (r *Rig) name(name, addr string) error {
	r.mu.Lock()
	_, known := r.to[name]
	r.to[name] = addr
	r.mu.Unlock()
	if !r.Spec.Links || known {
		return nil
	}
	return r.addLink(name, addr)
}

func (r *Rig) addLink(name, addr string) error {
	l, err := link.New(addr)
	if err != nil {
		return fmt.Errorf("a link to %s: %w", name, err)
	}
	r.Links[name] = l
	return nil
}

// reach returns the address by which clients and gateways reach a server.
func (r *Rig) reach(name string) string {
	if l := r.Links[name]; l != nil {
		return l.Addr()
	}
	return r.Server(name)
}

// redisURL is a server as a client of this name reaches it.
func (r *Rig) redisURL(server, clientName string) string {
	u := url.URL{Scheme: "redis", Host: r.reach(server), Path: "/0"}
	if r.redis != nil {
		u = *r.redis.url
		u.Host = r.reach(server)
	}
	q := u.Query()
	q.Set("client_name", clientName)
	u.RawQuery = q.Encode()
	return u.String()
}

// postgresURL is the run's database as a client of this name reaches it.
func (r *Rig) postgresURL(server, clientName string) string {
	return r.postgres.at(r.reach(server), clientName)
}

// endpoints are where a client process finds the lock and the store.
func (r *Rig) endpoints() client.Endpoints {
	s := r.Spec
	e := s.Client.Endpoints // Pool, APIKey
	e.Lock, e.Store = s.Lock, s.Store
	for _, name := range r.LockNames() {
		if isPostgres(s.Lock) {
			e.LockPostgres = r.postgresURL(name, "")
		} else {
			e.LockRedis = append(e.LockRedis, r.reach(name))
		}
	}
	switch {
	case isPostgres(s.Store):
		e.StorePostgres = r.postgresURL(r.StoreName(), "")
	case isRedis(s.Store):
		e.StoreRedis = r.reach(r.StoreName())
	}
	e.Gateways = nil
	for _, g := range r.Gateways {
		at := g.URL()
		if l := r.Links[g.name]; l != nil {
			at = "http://" + l.Addr()
		}
		e.Gateways = append(e.Gateways, at)
	}
	return e
}
