package httpapi

import "net/http"

// Routes returns the methods of each path that an API serves.
func Routes(h http.Handler) map[string][]string {
	routes := make(map[string][]string)
	list := func() []route {
		if a, ok := h.(*admin); ok {
			return a.routes()
		}
		return h.(*api).routes()
	}
	for _, r := range list() {
		routes[r.path] = append(routes[r.path], r.method)
	}
	return routes
}
