CREATE TABLE :"schema".zone_marks (
    id          bigint       NOT NULL GENERATED ALWAYS AS IDENTITY,
    zone        varchar(100) NOT NULL,
    fingerprint bigint       NOT NULL,
    since       integer      NOT NULL,
    version     varchar(100) NOT NULL,
    CONSTRAINT zone_marks_pkey PRIMARY KEY (id)
);

COMMENT ON TABLE :"schema".zone_marks IS 'Zones of which pending events were planned by other rules than zone_rules has';

REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON :"schema".zone_marks FROM PUBLIC;

REVOKE USAGE, UPDATE ON SEQUENCE :"schema".zone_marks_id_seq FROM PUBLIC;
