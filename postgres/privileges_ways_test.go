package postgres_test

// The tables that functions of the schema are borrowed for have what those look at.
const (
	aUser    = `CREATE TEMP TABLE mine AS SELECT '{user}'::uuid AS id, 7 AS version`
	aSeries  = `CREATE TEMP TABLE mine AS SELECT '{user}'::uuid AS user_id, gen_random_uuid() AS event_id, 'x'::text AS event_type, ''::text AS used_key, 1 AS version, 0 AS claim_count, ''::text AS last_error LIMIT 0`
	aHistory = `CREATE TEMP TABLE mine AS SELECT '{user}'::uuid AS user_id, gen_random_uuid() AS id, 'x'::text AS event_type, 'COMPLETED'::text AS status, 1 AS version, ''::text AS failure_reason LIMIT 0`
	aLease   = `CREATE TEMP TABLE mine (series_ids bigint[])`
)

// borrowed makes a function of the schema the trigger of a table that the role owns.
func borrowed(table, function, when, cause string) string {
	return table + "; CREATE TRIGGER borrowed " + when + " ON mine FOR EACH ROW EXECUTE FUNCTION almanac." + function + "(); " + cause
}

// borrowings are the ways to have a function of the schema do harm from a table of
// one's own.
var borrowings = map[string]string{
	"delete a user's events by forget_user":              borrowed(aUser, "forget_user", "BEFORE DELETE", "DELETE FROM mine"),
	"delete them from a permanent table called users":    `CREATE TABLE mine.users AS SELECT '{user}'::uuid AS id; CREATE TRIGGER borrowed BEFORE DELETE ON mine.users FOR EACH ROW EXECUTE FUNCTION almanac.forget_user(); DELETE FROM mine.users`,
	"delete them from a temporary table called users":    `SET search_path = pg_temp, almanac; CREATE TEMP TABLE users AS SELECT '{user}'::uuid AS id; CREATE TRIGGER borrowed BEFORE DELETE ON pg_temp.users FOR EACH ROW EXECUTE FUNCTION almanac.forget_user(); DELETE FROM pg_temp.users`,
	"disown series by follow_user":                       borrowed(aUser, "follow_user", "AFTER UPDATE", "UPDATE mine SET version = 99"),
	"forge a step by write_audit":                        borrowed(aSeries, "write_audit", "AFTER INSERT", "INSERT INTO mine VALUES ('{user}', gen_random_uuid(), 'FORGED', '', 1, 0, '')"),
	"forge an end by write_audit":                        borrowed(aHistory, "write_audit", "AFTER INSERT", "INSERT INTO mine VALUES ('{user}', gen_random_uuid(), 'FORGED', 'COMPLETED', 1, '')"),
	"forge a claim by write_audit":                       borrowed(aLease, "write_audit", "AFTER INSERT", "INSERT INTO mine SELECT ARRAY(SELECT generate_series(1, 100))"),
	"forge an opt-out by write_audit":                    borrowed(`CREATE TEMP TABLE mine (id uuid, version integer, opt_outs jsonb)`, "write_audit", "AFTER INSERT", "INSERT INTO mine VALUES ('{user}', 7, '[{}]')"),
	"forge a deletion by write_outbox":                   borrowed(`CREATE TEMP TABLE mine AS SELECT '{user}'::uuid AS id, 7 AS version, NULL::timestamptz AS deleted_at`, "write_outbox", "AFTER DELETE", "DELETE FROM mine"),
	"forge an event by write_outbox":                     borrowed(aSeries, "write_outbox", "AFTER INSERT", "INSERT INTO mine VALUES ('{user}', gen_random_uuid(), 'FORGED', '', 1, 0, '')"),
	"forge an ended event by write_outbox":               borrowed(aHistory, "write_outbox", "AFTER INSERT", "INSERT INTO mine VALUES ('{user}', gen_random_uuid(), 'FORGED', 'COMPLETED', 1, '')"),
	"borrow by a constraint trigger":                     aUser + "; CREATE CONSTRAINT TRIGGER borrowed AFTER DELETE ON mine FOR EACH ROW EXECUTE FUNCTION almanac.forget_user(); DELETE FROM mine",
	"borrow by a trigger of a statement":                 aUser + "; CREATE TRIGGER borrowed AFTER DELETE ON mine EXECUTE FUNCTION almanac.forget_user(); DELETE FROM mine",
	"borrow by a trigger on a view of one's own":         `CREATE TEMP VIEW mine AS SELECT '{user}'::uuid AS id; CREATE TRIGGER borrowed INSTEAD OF DELETE ON mine FOR EACH ROW EXECUTE FUNCTION almanac.forget_user(); DELETE FROM mine`,
	"call forget_user":                                   `SELECT almanac.forget_user()`,
	"call write_audit from a function of one's own":      `CREATE FUNCTION mine.call() RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM almanac.write_audit(); END'; SELECT mine.call()`,
	"borrow the guard":                                   borrowed(aUser, "refuse_change", "BEFORE DELETE", "DELETE FROM mine"),
	"call the guard":                                     `SELECT almanac.refuse_change()`,
	"make forget_user part of an event trigger":          `CREATE EVENT TRIGGER borrowed ON ddl_command_end EXECUTE FUNCTION almanac.forget_user()`,
	"replace a function":                                 `CREATE OR REPLACE FUNCTION almanac.follow_user() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
	"have a function look for its tables somewhere else": `ALTER FUNCTION almanac.forget_user() SET search_path = mine`,
}

// intrusions are other ways to change what is in the schema; {each} stands for each of
// its tables and views.
var intrusions = map[string]string{
	"insert":                                 `INSERT INTO {each} DEFAULT VALUES`,
	"forge a row of the trail":               `INSERT INTO almanac.audit (kind, event_id, user_id, event_type, version, actor) VALUES ('completed', gen_random_uuid(), '{user}', 'X', 1, 'somebody else')`,
	"forge a row of the outbox":              `INSERT INTO almanac.outbox (kind, user_id, version) VALUES ('user_deleted', '{user}', 1)`,
	"insert through a view":                  `INSERT INTO almanac.ended_events (id, user_id) VALUES (gen_random_uuid(), '{user}')`,
	"update":                                 `DO $$ DECLARE c text; BEGIN SELECT quote_ident(attname) INTO c FROM pg_attribute WHERE attrelid = '{each}'::regclass AND attnum = 1; EXECUTE format('UPDATE {each} SET %s = DEFAULT', c); END $$`,
	"delete":                                 `DELETE FROM {each}`,
	"merge":                                  `MERGE INTO almanac.keys k USING (SELECT 'x' AS v) n ON k.idempotency_key = n.v WHEN NOT MATCHED THEN INSERT VALUES (n.v)`,
	"truncate":                               `TRUNCATE {each} CASCADE`,
	"delete in a query":                      `WITH gone AS (DELETE FROM almanac.keys RETURNING *) SELECT count(*) FROM gone`,
	"delete in an EXPLAIN":                   `EXPLAIN ANALYZE DELETE FROM almanac.queue`,
	"delete by a prepared statement":         `PREPARE mine AS DELETE FROM almanac.queue; EXECUTE mine`,
	"delete the row at a cursor":             `BEGIN; DECLARE mine CURSOR FOR SELECT 1; DELETE FROM almanac.queue WHERE CURRENT OF mine`,
	"delete in a block":                      `DO $$ BEGIN EXECUTE 'DELETE FROM almanac.series'; END $$`,
	"delete by an own definer":               `CREATE FUNCTION mine.harm() RETURNS void SECURITY DEFINER LANGUAGE sql AS 'DELETE FROM almanac.users'; SELECT mine.harm()`,
	"delete by a function that runs queries": `SELECT query_to_xml('DELETE FROM almanac.queue RETURNING 1', true, true, '')`,
	"delete by a rule of one's own":          `CREATE TEMP TABLE mine (id integer); CREATE RULE harm AS ON INSERT TO mine DO INSTEAD DELETE FROM almanac.users; INSERT INTO mine VALUES (1)`,
	"write through a view of one's own":      `CREATE TEMP VIEW mine AS SELECT event_type FROM almanac.ended_events; UPDATE mine SET event_type = 'X'`,
	"copy into a table":                      `COPY {each} FROM STDIN`,
	"copy from a program":                    `COPY almanac.keys FROM PROGRAM 'echo x'`,
	"copy to a program":                      `COPY (SELECT 1) TO PROGRAM 'cat'`,
	"lock rows":                              `SELECT FROM {each} FOR UPDATE`,
	"lock rows a little":                     `SELECT FROM {each} FOR KEY SHARE`,
	"lock a table against writers":           `BEGIN; LOCK TABLE {each} IN SHARE MODE`,
	"lock a table exclusively":               `BEGIN; LOCK TABLE {each} IN ACCESS EXCLUSIVE MODE`,
	"take a number of series":                `SELECT nextval('almanac.series_id_seq')`,
	"set the number of series":               `SELECT setval('almanac.series_id_seq', 1)`,
	"take numbers of the trail by a default": `CREATE TEMP TABLE mine (id bigint DEFAULT nextval('almanac.audit_id_seq')); INSERT INTO mine DEFAULT VALUES`,
	"begin the numbers anew":                 `ALTER SEQUENCE almanac.series_id_seq RESTART`,
	"add a column":                           `ALTER TABLE {each} ADD COLUMN mine integer`,
	"rename":                                 `ALTER TABLE {each} RENAME TO mine`,
	"move to another schema":                 `ALTER TABLE {each} SET SCHEMA mine`,
	"switch off the guards":                  `ALTER TABLE almanac.history DISABLE TRIGGER ALL`,
	"switch off all triggers":                `SET session_replication_role = replica`,
	"own a table":                            `ALTER TABLE {each} OWNER TO CURRENT_USER`,
	"own the schema":                         `ALTER SCHEMA almanac OWNER TO CURRENT_USER`,
	"drop":                                   `DROP TABLE almanac.audit CASCADE`,
	"drop a view":                            `DROP VIEW almanac.events CASCADE`,
	"drop a function":                        `DROP FUNCTION almanac.forget_user() CASCADE`,
	"drop what the owner owns":               `DROP OWNED BY {owner} CASCADE`,
	"take over what the owner owns":          `REASSIGN OWNED BY {owner} TO CURRENT_USER`,
	"make a table":                           `CREATE TABLE almanac.mine ()`,
	"make a function":                        `CREATE FUNCTION almanac.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'`,
	"make a trigger":                         `CREATE TRIGGER mine BEFORE UPDATE ON almanac.series FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
	"make a rule":                            `CREATE RULE mine AS ON UPDATE TO almanac.users DO INSTEAD NOTHING`,
	"replace a view":                         `CREATE OR REPLACE VIEW almanac.events AS SELECT 1 AS id`,
	"index":                                  `CREATE INDEX ON almanac.users (id)`,
	"keep statistics":                        `CREATE STATISTICS mine.mine ON user_id, event_type FROM almanac.series`,
	"refer to users":                         `CREATE TABLE mine.mine (id uuid REFERENCES almanac.users)`,
	"inherit":                                `CREATE TABLE mine.mine () INHERITS (almanac.keys)`,
	"hide rows by a policy":                  `CREATE POLICY mine ON almanac.users USING (false)`,
	"hide rows by row security":              `ALTER TABLE almanac.users ENABLE ROW LEVEL SECURITY`,
	"comment":                                `COMMENT ON TABLE {each} IS 'mine'`,
	"publish":                                `CREATE PUBLICATION mine FOR TABLE almanac.users`,
	"grant by default":                       `ALTER DEFAULT PRIVILEGES FOR ROLE {owner} GRANT ALL ON TABLES TO PUBLIC`,
	"grant oneself the owner":                `GRANT {owner} TO CURRENT_USER`,
	"become the owner":                       `SET ROLE {owner}`,
	"become the owner of the session":        `SET SESSION AUTHORIZATION {owner}`,
	"become the owner by a setting":          `SELECT set_config('role', '{owner}', false)`,
	"read a file":                            `SELECT pg_read_file('PG_VERSION')`,
	"write a file as a large object":         `SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/mine')`,
	"load a library":                         `LOAD '/tmp/mine.so'`,
	"end a session of the owner's":           `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{owner}'`,
	"reset statistics":                       `SELECT pg_stat_reset()`,
}

// harmless are ways that PostgreSQL need not refuse, be it with a warning. They must
// change nothing all the same.
var harmless = map[string]string{
	"grant a missing privilege": `GRANT DELETE ON almanac.users TO CURRENT_USER`,
	"shadow tables and views":   `SET search_path = pg_temp, almanac; CREATE TEMP TABLE users (id uuid); CREATE TEMP TABLE series (id bigint); INSERT INTO users VALUES ('{user}'); DELETE FROM users`,
	"shadow functions":          `CREATE FUNCTION mine.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'mine' $$; SET search_path = mine, pg_catalog, almanac; SELECT count(*) FROM almanac.events`,
	"give a hint that is none":  `NOTIFY "almanac:almanac", 'forged'; NOTIFY "almanac:almanac"`,
	"vacuum and analyze":        `ANALYZE almanac.users`,
	"lock a table for reading":  `BEGIN; LOCK TABLE almanac.events IN ACCESS SHARE MODE; COMMIT`,
	"look at what is promised":  `SELECT count(*) FROM almanac.events`,
}
