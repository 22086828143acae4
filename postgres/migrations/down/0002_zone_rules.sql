-- Nothing is lost: where no rules are remembered, the next program that runs looks at every pending event, and remembers its own.
DROP TABLE :"schema".zone_rules;
