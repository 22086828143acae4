package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// EncodingError reports that the database cannot hold every text, or that the session would misread texts. Almanac
// works in databases with the encoding UTF8, and in sessions with the client encoding UTF8, which is pgx's. Nothing was stored.
type EncodingError struct {
	Database string // the encoding of the database, such as LATIN1 or SQL_ASCII
	Session  string // client_encoding, which a role, a database or a connection may set
}

const utf8 = "UTF8"

func (e *EncodingError) Error() string {
	if e.Database != utf8 {
		return fmt.Sprintf("postgres: the encoding of this database is %s, and Almanac needs UTF8: use a database made by CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", e.Database)
	}
	return fmt.Sprintf("postgres: client_encoding is %s in this session, and Almanac needs UTF8: reset the setting of the role, the database or the connection", e.Session)
}

// check returns e if one of the encodings is another than UTF8. An encoding that is not known counts as UTF8.
func (e *EncodingError) check() error {
	if (e.Database == utf8 || e.Database == "") && (e.Session == utf8 || e.Session == "") {
		return nil
	}
	return asIs(e)
}

// checkEncoding checks the encodings of a connection, which the server reports without being asked.
func checkEncoding(conn *pgx.Conn) error {
	e := EncodingError{conn.PgConn().ParameterStatus("server_encoding"), conn.PgConn().ParameterStatus("client_encoding")}
	return e.check()
}
