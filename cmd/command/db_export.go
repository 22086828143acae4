package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/almanac-go/almanac/postgres"
)

// migrateExport writes the migrations as SQL.
type migrateExport struct {
	Layout string `help:"Files: ${layout} (default ${default})." placeholder:"LAYOUT" default:"plain"`
	Dir    string `help:"The directory to write files to; standard output if left out, which takes a plain script." placeholder:"DIR"`
	After  string `help:"Leave out the migrations up to this version; for plain." placeholder:"N" default:"0"`
	Schema string `help:"The schema of the tables (default ${default})." placeholder:"NAME" default:"${schema}"`
	JSON   bool   `help:"Write JSON, with the SQL unless it goes to a directory." name:"json"`
}

// exportReport is what there is to say about an export.
type exportReport struct {
	Layout string       `json:"layout"`
	Schema string       `json:"schema"`
	Files  []exportFile `json:"files"`
}

type exportFile struct {
	Name    string `json:"name"`
	Written bool   `json:"written"`       // false where it was there already, and where there is no directory
	SQL     string `json:"sql,omitempty"` // where there is no directory
}

// Run exports.
func (c *migrateExport) Run(env *environment) error {
	files, err := c.parse()
	if err != nil {
		return err
	}
	report := exportReport{c.Layout, c.Schema, []exportFile{}}
	if c.Dir == "" {
		if !c.JSON {
			_, err := io.WriteString(env.out, files[0].SQL)
			return err
		}
		report.Files = mapped(files, func(f postgres.File) exportFile { return exportFile{Name: f.Name, SQL: f.SQL} })
		return writeJSON(env.out, report)
	}
	if report.Files, err = writeFiles(c.Dir, files); err != nil {
		return err
	}
	return env.report(c.JSON, report, func() error { return report.write(env.out, c.Dir) })
}

func (c *migrateExport) parse() ([]postgres.File, error) {
	after, errAfter := strconv.Atoi(c.After)
	if errAfter != nil || after < 0 {
		after, errAfter = 0, fmt.Errorf("--after: %q is not the number of a version", c.After)
	}
	errLayout := oneOf("--layout", c.Layout)
	var errDir error
	if errLayout == nil && c.Dir == "" && c.Layout != string(postgres.Plain) && !c.JSON {
		errDir = fmt.Errorf("--dir is required for %s", c.Layout)
	}
	if err := misused(errLayout, errDir, errAfter, validateSchema(c.Schema)); err != nil {
		return nil, err
	}
	files, err := postgres.Export{Layout: postgres.Layout(c.Layout), Schema: c.Schema, After: after}.Files()
	return files, misused(about("--after", err)) // all else is judged already
}

// writeFiles writes all files, or none.
func writeFiles(dir string, files []postgres.File) (written []exportFile, err error) {
	var others []error
	for _, f := range files {
		there, err := os.ReadFile(filepath.Join(dir, f.Name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			written = append(written, exportFile{Name: f.Name, Written: true})
		case err != nil:
			others = append(others, err)
		case !bytes.Equal(there, []byte(f.SQL)):
			others = append(others, fmt.Errorf("%s is there and says something else", filepath.Join(dir, f.Name)))
		default:
			written = append(written, exportFile{Name: f.Name})
		}
	}
	if err := errors.Join(others...); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	for i, f := range files {
		if !written[i].Written {
			continue
		}
		path := filepath.Join(dir, f.Name)
		defer func() {
			if err != nil {
				_ = os.Remove(path) // none rather than some
			}
		}()
		if err := os.WriteFile(path, []byte(f.SQL), 0o666); err != nil {
			return nil, err
		}
	}
	return written, nil
}

func (r exportReport) write(out io.Writer, dir string) error {
	for _, f := range r.Files {
		verb := "kept "
		if f.Written {
			verb = "wrote"
		}
		if _, err := fmt.Fprintf(out, "%s %s\n", verb, filepath.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	return nil
}
