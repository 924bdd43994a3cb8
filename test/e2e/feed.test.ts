import { writeFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { EntityTable } from '../../src/core/records.ts';
import type { Row } from '../support/expected-rows.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { callCli } from '../support/run-cli.ts';
import { sameRow } from '../support/same-row.ts';
import { isLong } from '../support/trials.ts';
import { sampleConnectors, tablesOf } from '../support/sample-service.ts';
import { triedSampleSinks } from '../support/all-sample-sinks.ts';

const revisions = Number(process.env['REVISIONS'] ?? 2);
const fullAt = new Set([2, 3, 5]);

/** A warehouse that is fed by `export` alone: a table of records by key, and how far each feed has come. */
interface Warehouse extends Disposable {
  /** One transaction: the changes, and the number to continue from. */
  load(entity: string, lines: readonly JsonObject[], key: readonly string[], nextSeq: number): void;
  nextSeq(entity: string): number;
  rows(table: EntityTable): ReadonlyMap<string, Row>;
}

function openWarehouse(file: string): Warehouse {
  const db = new Database(file);
  db.exec(`CREATE TABLE record (entity TEXT, key TEXT, line TEXT, PRIMARY KEY (entity, key));
    CREATE TABLE feed (entity TEXT PRIMARY KEY, next_seq INTEGER)`);
  const put = db.prepare('INSERT OR REPLACE INTO record VALUES (?, ?, ?)');
  const drop = db.prepare('DELETE FROM record WHERE entity = ? AND key = ?');
  const go = db.prepare('INSERT OR REPLACE INTO feed VALUES (?, ?)');
  const next = db.prepare<[string], number>('SELECT next_seq FROM feed WHERE entity = ?').pluck();
  const all = db.prepare<[string], { key: string; line: string }>(
    'SELECT key, line FROM record WHERE entity = ?',
  );
  return {
    load: db.transaction(
      (entity: string, lines: readonly JsonObject[], key: readonly string[], nextSeq: number) => {
        for (const line of lines) {
          const keyText = JSON.stringify(key.map((name) => line[name]));
          if (line['_op'] === 'delete') drop.run(entity, keyText);
          else put.run(entity, keyText, JSON.stringify(line));
        }
        go.run(entity, nextSeq);
      },
    ),
    nextSeq: (entity) => next.get(entity) ?? 0,
    rows: (table) =>
      new Map(
        all.all(table.entity).map(({ key, line }) => [key, rowOf(table, JSON.parse(line) as JsonObject)]),
      ),
    [Symbol.dispose]: () => void db.close(),
  };
}

function rowOf(table: EntityTable, line: JsonObject): Row {
  return {
    columns: Object.fromEntries(table.columns.map(({ name }) => [name, line[name] ?? null])),
    extra: (line['_extra'] as JsonObject | undefined) ?? null,
  };
}

/** The command as a scheduler would call it. Gives its output, and the changes. */
async function feed(
  world: RevisionWorld,
  warehouse: Warehouse,
  table: EntityTable,
): Promise<{ readonly changes: number }> {
  const { entity, key } = table;
  const since = warehouse.nextSeq(entity);
  const result = await callCli(
    [
      'export',
      `${world.definitionName}/${entity}`,
      '--since-seq',
      String(since),
      '--json',
      '--config',
      'sync.yaml',
    ],
    { cwd: world.folder, env: { SECRET: 'unused-secret' } },
  );
  expect({ entity, code: result.code, stderr: result.code === 0 ? '' : result.stderr }).toEqual({
    entity,
    code: 0,
    stderr: '',
  });
  const lines = result.stdout.split('\n').filter((line) => line !== '');
  const end = JSON.parse(result.stderr) as { readonly nextSeq: number };
  warehouse.load(
    entity,
    lines.map((line) => JSON.parse(line) as JsonObject),
    key,
    end.nextSeq,
  );
  return { changes: lines.length };
}

function differences(left: ReadonlyMap<string, Row>, right: ReadonlyMap<string, Row>): readonly string[] {
  const wrong = [...right].flatMap(([key, row]) => {
    const found = left.get(key);
    return found !== undefined && sameRow(found, row)
      ? []
      : [`${found === undefined ? 'lost' : 'other'} ${key}`];
  });
  return [...wrong, ...[...left.keys()].filter((key) => !right.has(key)).map((key) => `superfluous ${key}`)];
}

/** Trashed pages are not listed, stay stored, and keep what is below them. */
function withoutTrash(world: RevisionWorld, { entity }: EntityTable, rows: ReadonlyMap<string, Row>) {
  const pageOf = ({ columns }: Row): unknown => {
    if (entity === 'blocks') return columns['page_id'];
    return entity === 'comments' ? (columns['parent'] as JsonObject | null)?.['page_id'] : columns['id'];
  };
  const owner = entity === 'data_sources' ? 'data_sources' : 'pages';
  return new Map([...rows].filter(([, row]) => !world.isTrashed(owner, String(pageOf(row)))));
}

describe.each(triedSampleSinks)('a warehouse fed from a %s sink', (type, sink) => {
  // Proves promise 14
  it.each(sampleConnectors.filter(([id]) => isLong || id !== 'library'))(
    'by export alone holds what the sink of %s holds after every revision, and the truth after a full read',
    async (connectorId, definitionName) => {
      // A revision changes half of a tiny library.
      const size = definitionName === 'document-library' ? 'small' : 'tiny';
      await using world = await openRevisionWorld({ definitionName, sink: type, size });
      writeFileSync(
        path.join(world.folder, 'sync.yaml'),
        `api: { baseUrl: "${world.url}", clientId: a, clientSecret: "\${SECRET}" }
sinks: { test: ${JSON.stringify(sink.settings(world.folder))} }
connectors: { ${definitionName}: { definition: ${definitionName}, id: ${connectorId}, sink: test } }
`,
      );
      using warehouse = openWarehouse(path.join(world.folder, 'warehouse.db'));
      const tables = tablesOf(definitionName);
      const changes: number[] = [];
      for (let revision = 0; revision <= revisions; revision += 1) {
        world.moveTo(revision);
        const run = fullAt.has(revision) ? { isFull: true, allowDeletes: true } : {};
        const { outcome } = await world.sync(run);
        expect({ revision, outcome }).toEqual({ revision, outcome: 'ok' });
        let fed = 0;
        for (const table of tables) {
          fed += (await feed(world, warehouse, table)).changes;
          const { entity } = table;
          const wrong = differences(warehouse.rows(table), world.stored(table));
          expect({ revision, entity, wrong }).toEqual({ revision, entity, wrong: [] });
          if (!fullAt.has(revision)) continue;
          const loaded = withoutTrash(world, table, warehouse.rows(table));
          const untrue = differences(
            loaded,
            withoutTrash(world, table, world.truth().get(entity) ?? new Map()),
          );
          expect({ revision, entity, untrue }).toEqual({ revision, entity, untrue: [] });
        }
        changes.push(fed);
      }
      // Fed by what changed, not by everything again.
      expect(changes.slice(1).every((fed) => fed > 0 && fed < (changes[0] ?? 0))).toBe(true);
      // Nothing new: nothing to load.
      let again = 0;
      for (const table of tables) again += (await feed(world, warehouse, table)).changes;
      expect(again).toBe(0);
    },
    120_000,
  );
});
