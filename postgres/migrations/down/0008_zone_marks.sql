-- What other rules have planned is looked at no more than before.
DROP TABLE :"schema".zone_marks;
