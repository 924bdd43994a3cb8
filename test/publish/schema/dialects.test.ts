import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ownColumns as publishedColumns } from '../../../src/publish/row-files.ts';
import { type FilesPlace, ownColumns } from '../../../src/publish/schema/catalogue.ts';
import { generate } from '../../../src/publish/schema/generate.ts';
import { defaultLayout } from '../../../src/settings/publish-file.ts';
import { dbtSources } from '../../support/publish/dbt-shapes.ts';
import { smallCatalogue } from '../../support/publish/small-catalogue.ts';

const bucket: FilesPlace = {
  type: 's3',
  bucket: 'acme-raw',
  prefix: 'sync',
  region: 'eu-central-1',
  endpoint: null,
  format: 'jsonl',
  layout: defaultLayout,
  credentials: null,
};

describe('generated text', () => {
  it('loads nothing where there is no target', () => {
    const alone = generate({ ...smallCatalogue(null), publication: null }, 'postgres');
    expect(alone.map(({ path }) => path)).toEqual(['postgres/tables.sql']);
  });

  it('has the own columns that files have', () => {
    expect(ownColumns.map(({ name }) => name)).toEqual(publishedColumns);
  });

  it('for dbt is a file of sources that dbt takes, whatever descriptions and names hold', () => {
    const [file] = generate(smallCatalogue(bucket), 'dbt');
    const { sources } = dbtSources.parse(parse(file?.body ?? ''));
    const [orders, lines] = sources[0]?.tables ?? [];
    expect(lines?.config.freshness).toEqual({ warn_after: { count: 2, period: 'hour' } });
    expect(orders?.description).toBe('What people ordered: { { hostile } }. Records are never deleted.');
    const total = orders?.columns.find(({ name }) => name === 'total');
    expect(total?.description).toBe('In euros; { { hostile } } { # words # }');
    expect(lines?.columns.filter(({ quote }) => quote).map(({ name }) => name)).toEqual([
      'order',
      'id',
      "it's",
    ]);
  });
});
