package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"path"
)

//go:embed assets/dashboard.css assets/dashboard.js assets/icon.svg
var assetFiles embed.FS

// assets are the files with their hashes. A file at the address of another hash is not
// found, so an old page never gets the style of a new release.
var assets = hashAssets()

type asset struct {
	hash    string
	content []byte
}

func hashAssets() map[string]asset {
	all := make(map[string]asset)
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		content, err := assetFiles.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		all[entry.Name()] = asset{base64.RawURLEncoding.EncodeToString(sum[:9]), content}
	}
	return all
}

// assetTypes are fixed, because the tables of a machine may say otherwise. A browser does not
// run a script of another type.
var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func assetPath(name string) string { return "assets/" + assets[name].hash + "/" + name }

// serveAsset answers without authentication, because the page that asks for a login needs
// the files too. The cache is private, since a host may set cookies on every answer.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	file, ok := assets[r.PathValue("file")]
	if !ok || file.hash != r.PathValue("hash") {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", assetTypes[path.Ext(r.PathValue("file"))])
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	_, _ = w.Write(file.content)
}
