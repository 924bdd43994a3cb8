import { describe, expect, it } from 'vitest';
import { generate } from '../../../src/publish/schema/generate.ts';
import { ownColumns } from '../../../src/publish/schema/own-columns.ts';
import type { FilesPlace } from '../../../src/publish/schema/catalogue.ts';
import { quoteName, quoteText } from '../../../src/publish/schema/quote-name.ts';
import { defaultLayout } from '../../../src/settings/publish-file.ts';
import { ownColumns as publishedColumns } from '../../../src/publish/row-text.ts';
import { readDbtProject } from '../../support/publish/dbt-project.ts';
import { openDuckdb } from '../../support/publish/schema-world.ts';
import { smallCatalogue } from '../../support/publish/small-catalogue.ts';

const bucket: FilesPlace = {
  type: 's3',
  bucket: 'acme-raw',
  prefix: 'sync',
  region: 'eu-central-1',
  endpoint: null,
  format: 'parquet',
  layout: defaultLayout,
  credentials: null,
};
const folder: FilesPlace = {
  type: 'files',
  directory: "/data/it's a lake",
  format: 'csv',
  layout: defaultLayout,
};

/*
 * No server of these warehouses is at hand: a change of their texts shows here, and whether they are right is for
 * people to judge.
 */
describe('texts for warehouses that no test runs', () => {
  it.each(['clickhouse', 'snowflake', 'bigquery', 'redshift'])('%s, from a bucket', async (dialect) => {
    const text = generate(smallCatalogue(bucket), dialect)
      .map(({ path, body }) => `-- ${path}\n${body}`)
      .join('\n');
    await expect(text).toMatchFileSnapshot(`../../fixtures/generated/${dialect}.sql`);
  });

  it.each(['clickhouse', 'snowflake', 'bigquery', 'redshift'])(
    '%s says what to do with a folder, and makes tables where there is no target',
    (dialect) => {
      const [, load] = generate(smallCatalogue(folder), dialect);
      expect(load?.body).toMatch(/copy|Copy/);
      const alone = generate({ ...smallCatalogue(null), publication: null }, dialect);
      expect(alone.map(({ path }) => path.replace(/^.*\//, ''))).toContain('tables.sql');
      expect(alone.map(({ path }) => path)).not.toContain(`${dialect}/load.sql`);
    },
  );
});

describe('names', () => {
  it('and texts cannot end their quotes in dialects that no test runs', () => {
    expect(quoteName('a`b\\', 'bigquery')).toBe('`a\\`b\\\\`');
    expect(quoteName('a`b\\', 'clickhouse')).toBe('`a\\`b\\\\`');
    expect(quoteName('a"b', 'snowflake')).toBe('"a""b"');
    expect(quoteText("it's \\", 'snowflake')).toBe("'it\\'s \\\\'");
    expect(quoteText("it's \\", 'redshift')).toBe("'it''s \\'");
  });

  it('of the own columns are those that files have', () => {
    expect(ownColumns.map(({ name }) => name)).toEqual(publishedColumns);
  });
});

describe('a dbt project with such names', () => {
  it('is one that dbt takes, and runs', async () => {
    const project = readDbtProject(generate(smallCatalogue({ ...bucket, format: 'jsonl' }), 'dbt'), {
      source: ({ identifier }) => identifier,
      ref: (model) => model,
    });
    await using database = await openDuckdb();
    const own =
      "null::json as _extra, 7 as _seq, now() as _changed_at, 'r' as _run_id, false as _deleted, null::timestamptz as _deleted_at";
    await database.run(`create table shop__orders as select 1 as id, 2.5 as total, ${own};
      create table shop__order_lines as select 1 as "order", 'x' as id, true as is_gift, null::json as details, '' as "it's", ${own}`);
    for (const [name, sql] of project.models) await database.run(`create view ${name} as ${sql}`);
    const failing = [];
    for (const { name, sql } of project.tests) if ((await database.run(sql)).length > 0) failing.push(name);
    expect(failing).toEqual([]);
    expect(project.tests.map(({ name }) => name)).toContain('orphans_shop__order_lines');
    expect(project.sources[0]?.tables[1]?.config.freshness).toEqual({
      warn_after: { count: 2, period: 'hour' },
    });
    const [orders] = project.sources[0]?.tables ?? [];
    expect(orders?.description).toBe('What people ordered: { { hostile } }. Records are never deleted.');
    const total = orders?.columns.find(({ name }) => name === 'total');
    expect(total?.description).toBe('In euros; { { hostile } } { # words # }');
  });
});
