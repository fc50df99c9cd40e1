package gateway

// Routes are the API's, as the tests see them: method, path, scopes.
func Routes() (list [][3]string) {
	for _, r := range (&Gateway{}).routes() {
		list = append(list, [3]string{r.method, r.path, r.scope.String()})
	}
	return list
}
