import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { historyName, type ConnectorName } from '../../src/core/names.ts';
import type { PublishEnd } from '../../src/publish/publish-once.ts';
import type { CatalogueTable } from '../../src/publish/schema/catalogue.ts';
import { generate } from '../../src/publish/schema/generate.ts';
import { members } from '../contracts/sink/fixture.ts';
import { readDbtProject } from '../support/publish/dbt-project.ts';
import { duckdb } from '../support/publish/duckdb.ts';
import {
  connectorOf,
  openPublishWorld,
  type Change,
  type PublishWorld,
} from '../support/publish/publish-world.ts';
import { lakeManifests, readLake } from '../support/publish/read-lake.ts';

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

const history = historyName(members);

function historyIn(end: PublishEnd) {
  if (end.kind !== 'published') throw new Error(`Expected a publication, got ${end.kind}`);
  return end.published.manifest.entities.find(({ entity }) => entity === history);
}

describe('the history of an entity', () => {
  // Proves promise 20.11
  it('has each version of a row once, in rows of their own', async () => {
    const settings = {
      name: 'lake',
      connectors: [connectorOf(world.sink, { keepMs: null })],
      snapshotEveryMs: null,
      keepMs: null,
    };
    const history = historyName(members);
    const publish = async (change: Change) => {
      await world.run({ ...change, hasHistory: true });
      return historyIn(await world.publish({ settings }));
    };
    const ada = ['1', 'Ada'] as const;
    expect(await publish({ upserts: [ada, ['2', 'Bob']] })).toMatchObject({ upserts: 2, deletes: 0 });
    expect(await publish({ upserts: [ada, ['2', 'Bea']], deletes: ['1'] })).toMatchObject({
      upserts: 2,
      deletes: 0,
      key: ['list_id', 'id', '_version'],
    });
    expect(await publish({ upserts: [ada, ['2', 'Bea']] })).toMatchObject({ upserts: 1, deletes: 0 });
    expect((await world.publish({ settings })).kind).toBe('unchanged');
    const manifests = lakeManifests(world.lake);
    const lake = readLake(world.lake, manifests, manifests.at(-1)?.publication ?? 0);
    const lines = [...(lake.get(history)?.values() ?? [])].map(({ line }) => line);
    const rows = lines.toSorted((left, right) => Number(left['_version']) - Number(right['_version']));
    expect(rows.map((row) => [row['id'], row['name'], row['_is_deleted'], row['_changed_at']])).toEqual([
      ['1', 'Ada', false, '2026-03-01T10:01:00.000Z'],
      ['2', 'Bob', false, '2026-03-01T10:01:00.000Z'],
      ['2', 'Bea', false, '2026-03-01T10:02:00.000Z'],
      ['1', 'Ada', true, '2026-03-01T10:02:00.000Z'],
      ['1', 'Ada', false, '2026-03-01T10:03:00.000Z'],
    ]);
    await using target = world.target();
    expect((await target.check(new AbortController().signal)).problems).toEqual([]);
  });

  it('is a snapshot as dbt makes them', async () => {
    const name = 'news__members__history';
    const column = (field: string, type: CatalogueTable['columns'][number]['type']) => ({
      name: field,
      field,
      type,
      description: null,
    });
    const table: CatalogueTable = {
      connector: 'news' as ConnectorName,
      entity: history,
      title: 'News',
      description: 'Members',
      versionsOf: members,
      name,
      generation: 1,
      schema: 1,
      key: ['id', '_version'],
      columns: [column('_version', 'integer'), column('_is_deleted', 'boolean'), column('id', 'string')],
      unpacked: [],
      joins: [],
      deletes: '',
      staleAfterMs: null,
      glob: '',
      files: null,
    };
    const files = generate({ place: null, publication: 1, tables: [table] }, 'dbt');
    const project = readDbtProject(files, { source: ({ identifier }) => identifier, ref: (model) => model });
    const row = (version: number, id: string, day: number, isDeleted: boolean): string =>
      `(${version}, ${isDeleted}, '${id}', NULL, ${version}, '2026-03-0${day}T00:00:00Z'::timestamptz, 'r', false, NULL)`;
    const rows = [row(1, 'a', 1, false), row(2, 'b', 1, false), row(3, 'a', 2, true), row(4, 'a', 3, false)];
    await duckdb(`CREATE TABLE ${name} AS FROM (VALUES ${[...rows, rows[3]].join(', ')})
      AS t(_version, _is_deleted, id, _extra, _seq, _changed_at, _run_id, _deleted, _deleted_at)`);
    for (const [model, sql] of project.models) await duckdb(`CREATE VIEW ${model} AS ${sql}`);
    for (const test of project.tests) expect(await duckdb(test.sql), test.name).toEqual([]);
    const found = await duckdb(
      `SELECT id, dbt_scd_id::int AS began, epoch_ms(dbt_valid_from)::text AS began_at,
         epoch_ms(dbt_valid_to)::text AS ended_at, dbt_is_deleted AS deleted FROM stg_${name} ORDER BY id, dbt_scd_id`,
    );
    const day = (number: number): string => String(Date.UTC(2026, 2, number));
    expect(found).toEqual([
      { id: 'a', began: 1, began_at: day(1), ended_at: day(2), deleted: false },
      { id: 'a', began: 3, began_at: day(2), ended_at: day(3), deleted: true },
      { id: 'a', began: 4, began_at: day(3), ended_at: null, deleted: false },
      { id: 'b', began: 2, began_at: day(1), ended_at: null, deleted: false },
    ]);
  });
});
