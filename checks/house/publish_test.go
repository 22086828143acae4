package house_test

import (
	"archive/zip"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModulesCanBeAdded publishes the modules that hosts use, as the next release would,
// and adds each to a new module, the program as a tool. There a replace directive has no
// effect: each required version of our own modules must be a released one.
func TestModulesCanBeAdded(t *testing.T) {
	t.Parallel()
	version := releaseVersion(t)
	proxy := t.TempDir()
	var libraries []string
	for _, dir := range modules(t) {
		switch {
		case dir == "." || strings.HasPrefix(dir, "contrib/"):
			libraries = append(libraries, path.Join(module, dir))
		case dir == "cmd":
			libraries = append(libraries, path.Join(module, dir, "command"))
		default:
			continue
		}
		publish(t, proxy, dir, version)
		fillCache(t, dir)
	}
	environment := hostEnvironment(t, proxy)
	for _, library := range libraries {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			host := t.TempDir()
			// Compiled, not linked: what a host links are packages that were compiled.
			steps := [][]string{{"go", "mod", "init", "example.com/host"}, {"go", "get", library + "@" + version}, {"go", "build", library}}
			if tool := path.Join(module, "cmd", "almanac"); library == path.Join(module, "cmd", "command") {
				// As "go tool almanac", which has no use for -trimpath.
				program := filepath.Join(host, "almanac")
				steps = append(steps, []string{"go", "get", "-tool", tool + "@" + version},
					[]string{"go", "build", "-o", program, "tool"}, []string{program, "--version"})
			}
			for _, args := range steps {
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir, cmd.Env = host, environment
				if said, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, said)
				}
			}
		})
	}
}

// maxDownload is how many bytes of the library a host downloads at most.
const maxDownload = 4_000_000

// TestTheLibraryIsSmallToDownload checks the size of the root module as hosts download it. The
// pictures of the documents are its largest part.
func TestTheLibraryIsSmallToDownload(t *testing.T) {
	t.Parallel()
	archive := filepath.Join(t.TempDir(), "module.zip")
	if err := pack(archive, moduleRoot(t), module+"@v0.0.0/"); err != nil {
		t.Fatal(err)
	}
	packed, err := os.Stat(archive)
	if err != nil {
		t.Fatal(err)
	}
	if packed.Size() > maxDownload {
		t.Errorf("the root module has %d bytes as an archive, want at most %d", packed.Size(), maxDownload)
	}
}

// releaseVersion returns the version that the modules require of each other: the next
// release.
func releaseVersion(t *testing.T) string {
	t.Helper()
	version := ""
	for _, dir := range modules(t) {
		var mod struct {
			Require []struct{ Path, Version string }
		}
		goCommand(t, dir, &mod, "mod", "edit", "-json")
		for _, r := range mod.Require {
			if !within(r.Path, module) {
				continue
			}
			if version == "" {
				version = r.Version
			}
			if r.Version != version {
				t.Fatalf("%s/go.mod: %s is required at %s, and elsewhere at %s: make version", dir, r.Path, r.Version, version)
			}
		}
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(version) || version == "v0.0.0" {
		t.Fatalf("%q is not the version of a release", version)
	}
	return version
}

// publish writes a module in the format of a file proxy.
func publish(t *testing.T, proxy, dir, version string) {
	t.Helper()
	name, source := path.Join(module, dir), filepath.Join(moduleRoot(t), dir)
	target := filepath.Join(proxy, filepath.FromSlash(name), "@v")
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]string{"Version": version, "Time": "2026-01-01T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(target, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(target, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack(filepath.Join(target, version+".zip"), source, name+"@"+version+"/"); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// pack writes the files of a module, without nested modules, to an archive.
func pack(archive, source, prefix string) error {
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	packed := zip.NewWriter(file)
	err = filepath.WalkDir(source, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if entry.Name() == ".git" || name != source && nested == nil {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || entry.Name() == ".git" { // in a work tree .git is a file
			return nil
		}
		rel, err := filepath.Rel(source, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		w, err := packed.Create(prefix + filepath.ToSlash(rel))
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
	if closing := packed.Close(); err == nil {
		err = closing
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

// fillCache downloads the dependencies of a module to this machine's module cache.
func fillCache(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...")
	cmd.Dir, cmd.Env = filepath.Join(moduleRoot(t), dir), append(os.Environ(), "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go list in %s: %v\n%s", dir, err, said)
	}
}

// hostEnvironment is the environment of a host without a workspace and with an empty module
// cache. Other modules come from this machine's cache, and nothing from the network.
func hostEnvironment(t *testing.T, proxy string) []string {
	t.Helper()
	var is struct{ GOMODCACHE, GOFLAGS string }
	goCommand(t, ".", &is, "env", "-json", "GOMODCACHE", "GOFLAGS")
	proxies := []string{"file://" + proxy, "file://" + filepath.Join(is.GOMODCACHE, "cache", "download")}
	// Without -modcacherw the cache could not be removed. With -trimpath what was compiled for a
	// cache in another directory serves here too, which spares compiling every dependency.
	return append(os.Environ(), "GOWORK=off", "GOPROXY="+strings.Join(proxies, ","), "GOSUMDB=off", "GOMODCACHE="+t.TempDir(),
		"GOFLAGS="+strings.TrimSpace(is.GOFLAGS+" -mod=mod -modcacherw -trimpath"))
}
