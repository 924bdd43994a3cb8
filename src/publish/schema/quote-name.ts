/**
 * A name as SQL has it. Plain names stay bare: each dialect folds them in its own way, in definitions and in queries
 * alike. A word of any dialect that may read the tables is quoted, so that one table has the same name everywhere.
 */
export function quoteName(name: string): string {
  return isPlainName(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** A name that means the same with and without quotes, but for its case. */
export function isPlainName(name: string): boolean {
  return /^[a-z_][a-z0-9_]*$/.test(name) && !words.has(name);
}

/** A text as SQL has it. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** What no comment and no line of text may break out of. */
export function onOneLine(text: string): string {
  return text.replaceAll(/[\p{C}\u2028\u2029]+/gu, ' ').trim();
}

/** Words that at least one of the dialects does not take as the bare name of a column or table. */
const words = new Set(
  `
  account aes128 aes256 all allowoverwrite alter analyse analyze and anti any array as asc asof assert_rows_modified asymmetric at authorization az64
  backup between bigint binary bit blanksasnull boolean both by bytedict bzip2 case cast char character check coalesce collate collation column columns
  concurrently connect connection constraint contains create credentials cross cube current current_catalog current_date current_role current_schema
  current_time current_timestamp current_user current_user_id database date dec decimal default deferrable define deflate defrag delete delta delta32k
  desc describe disable distinct do drop else emptyasnull enable encode encrypt encryption end enum escape except exclude exists explicit extract false
  fetch final float following for foreign format freeze from full generated glob global globaldict256 globaldict64k grant group grouping grouping_id
  groups gscluster gzip hash having identity if ignore ilike in increment initially inner inout insert int integer intersect interval into is isnull
  issue join lambda language lateral leading left like limit localtime localtimestamp lookup lun luns lzo lzop map merge minus mostly16 mostly32 mostly8
  national natural nchar new no none not notnull null nullif nulls numeric of off offline offset oid old on only open or order organization out outer
  over overlaps overlay parallel partition percent permissions pivot pivot_longer pivot_wider placing position positional preceding precision prewhere
  primary proto qualify range raw readratio real recover recursive references regexp rejectlog resort respect restore returning revoke right rlike
  rollup row rows sample schema select semi session_user set setof settings show similar smallint snapshot some start struct substring summarize
  symmetric sysdate system system_user table tablesample tag tdes text255 text32k then time timestamp to top trailing treat trigger trim true
  truncatecolumns try_cast unbounded union unique unnest unpack unpivot update user using values varchar variadic verbose view wallet when whenever
  where window with within without xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
  `
    .trim()
    .split(/\s+/),
);
