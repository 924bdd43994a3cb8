import { DuckDBTimestampTZValue } from '@duckdb/node-api';
import { describe, expect, it } from 'vitest';
import { derivedKinds } from '../../../src/core/described-table.ts';
import { generate } from '../../../src/publish/schema/generate.ts';
import { readDbtProject } from '../../support/publish/dbt-project.ts';
import { openDuckdb, openPostgres } from '../../support/publish/schema-world.ts';
import { smallCatalogue } from '../../support/publish/small-catalogue.ts';
import { comparable, values } from '../../support/unpacked-values.ts';

const asked = derivedKinds.filter((kind) => kind !== 'texts');
const steps = ["it's", 'v/v~', '.'];

/* The values that the views of a sink are tested with. */
describe.each(['duckdb', 'postgres'] as const)('unpacked columns of dbt models in %s', (target) => {
  // Proves promise 20.12
  it('are values of their type, and null where the field has another', async () => {
    const catalogue = smallCatalogue(null);
    const tables = catalogue.tables.slice(0, 1).map((table) => ({
      ...table,
      columns: [
        { name: 'id', field: 'id', type: 'integer' as const, description: null },
        { name: 'order', field: 'order', type: 'object' as const, description: null },
        { name: 'note', field: 'note', type: 'string' as const, description: null },
      ],
      unpacked: asked.flatMap((as) => [
        { name: `deep_${as.toLowerCase()}`, source: 'order', path: steps, as },
        { name: `text_${as.toLowerCase()}`, source: 'note', path: null, as },
      ]),
    }));
    const project = readDbtProject(generate({ ...catalogue, tables }, 'dbt'), {
      source: () => 'orders',
      ref: (model) => model,
      target,
    });
    await using database = target === 'duckdb' ? await openDuckdb() : await openPostgres();
    const rows = values.map(([json], index) => {
      const text: unknown = JSON.parse(json);
      const note = typeof text === 'string' && !text.includes('\0') ? sqlText(text) : 'null';
      return `(${index}, ${sqlText(`{"it's":{"v/v~":{".":${json}}}}`)}::json, ${note})`;
    });
    await database.run(`create temp table orders as select t.*, null::json as _extra, 7 as _seq, now() as _changed_at,
      'r' as _run_id, false as _deleted from (values ${rows.join(', ')}) as t(id, "order", note)`);
    const [sql = ''] = project.models.values();
    const found = await database.run(`select * from (${sql}) as model order by id`);
    expect(found).toHaveLength(values.length);
    for (const [index, [json, wanted]] of values.entries()) {
      const row = found[index] ?? {};
      for (const as of asked.filter((one) => one !== 'string')) {
        const isText = row['note'] !== null;
        const name = as.toLowerCase();
        expect(comparable(plain(row[`deep_${name}`])), `${json} as ${as}`).toEqual(wanted[as] ?? null);
        expect(comparable(plain(row[`text_${name}`])), `text ${json} as ${as}`).toEqual(
          isText ? (wanted[as] ?? null) : null,
        );
      }
      expect(row['text_string']).toBe(row['note']);
      if (row['note'] !== null) expect(row['deep_string']).toBe(row['note']);
    }
  });
});

/** Times of DuckDB's client, and those that PostgreSQL's gives as texts. */
function plain(value: unknown): unknown {
  if (value instanceof DuckDBTimestampTZValue) return new Date(Number(value.micros / 1000n));
  if (value === 't' || value === 'f') return value === 't';
  if (typeof value === 'string' && /^-?\d+(\.\d+)?(e\+\d+)?$/.test(value)) return Number(value);
  return typeof value === 'string' && /^\d{4}-\d\d-\d\d .*\+00$/.test(value)
    ? new Date(`${value.replace(' ', 'T')}:00`)
    : value;
}

function sqlText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
