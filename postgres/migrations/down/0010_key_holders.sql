DROP TABLE :"schema".pruning;

ALTER TABLE :"schema".keys DROP COLUMN holders;
