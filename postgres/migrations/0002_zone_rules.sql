CREATE TABLE :"schema".zone_rules (
    zone        varchar(100) NOT NULL,
    fingerprint bigint       NOT NULL,
    since       integer      NOT NULL,
    version     varchar(100) NOT NULL,
    recheck     timestamptz,
    CONSTRAINT zone_rules_pkey PRIMARY KEY (zone)
);

COMMENT ON TABLE :"schema".zone_rules IS 'Which zone rules the instants of pending events follow';
