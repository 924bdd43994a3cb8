import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { PageCounts } from '../../src/core/records.ts';
import { jsonLines } from '../support/run-cli.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { openDirectWorld, worldRows, type DirectWorld } from '../support/upstream/direct-world.ts';
import { bentBody, instead } from '../support/upstream/faults.ts';
import { type FakeNotion, notionError } from '../support/upstream/notion.ts';
import { opened, serveWorlds, throughApi } from '../support/upstream/served-world.ts';
import { notionWorld } from '../support/upstream/upstream-world.ts';

const always = { times: Number.POSITIVE_INFINITY };
const isListing = ({ path }: { readonly path: string }): boolean =>
  /\/(children|search|comments|users)$/.test(path);
const isSingle = ({ path }: { readonly path: string }): boolean =>
  /\/(pages|data_sources|blocks|comments|users)\/[^/]+$/.test(path) && !path.endsWith('/me');

/** Every third record of every listing comes with its kind and id alone. */
function showInPart(fake: FakeNotion): void {
  const shorten = (record: JsonValue, index: number): JsonValue =>
    isJsonObject(record) && index % 3 === 0
      ? { object: record['object'] ?? null, id: record['id'] ?? null }
      : record;
  const effect = bentBody((body: JsonObject) => {
    const { results } = body;
    return Array.isArray(results) ? { ...body, results: (results as JsonValue[]).map(shorten) } : body;
  });
  fake.script({ ...always, on: isListing, effect });
}

async function openNotes() {
  const world = await opened(notionWorld({ as: 'my-notes' }));
  const settings = '    entities: { comments: { parents: [pages, blocks] } }\n';
  const direct = await opened(Promise.resolve(openDirectWorld(world, { settings })));
  return { world, direct };
}

interface Report {
  readonly entities: readonly {
    readonly entity: string;
    readonly counts: PageCounts;
    readonly partial: number;
    readonly deleted: number;
  }[];
}

/** What a sync of everything changed in the rows, and what came in part. */
async function fullSync(direct: DirectWorld) {
  const result = await direct.cli('sync', '--full', '--json');
  const { report } = jsonLines(result).at(-1) as { readonly report?: Report };
  const { entities } = report ?? { entities: [] };
  const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);
  return {
    code: result.code,
    inserted: sumOf(entities.map(({ counts }) => counts.inserted)),
    changed: sumOf(entities.map(({ counts, deleted }) => counts.updated + deleted)),
    partial: entities.filter(({ partial }) => partial > 0).map(({ entity }) => entity),
  };
}

const unchanged = { code: 0, inserted: 0, changed: 0, partial: [] };

// Proves promise 7.1
it('reads records whole that listings show in part, directly and through serve', async () => {
  const { world, direct } = await openNotes();
  showInPart(world.fake);
  const rows = [...worldRows(world).values()].reduce((sum, { size }) => sum + size, 0);
  expect(await fullSync(direct)).toEqual({ ...unchanged, inserted: rows });

  const served = await serveWorlds([world]);
  const own = readFileSync(direct.config, 'utf8');
  writeFileSync(direct.config, throughApi(own, served.service.url, await served.connect(world)));
  expect((await direct.cli('adopt', 'mine', '--yes')).code).toBe(0);
  // The API has no get for comments: their rows stay as they are.
  expect(await fullSync(direct)).toEqual({ ...unchanged, code: 3, partial: ['comments'] });
  world.fake.heal();
  expect(await fullSync(direct)).toEqual(unchanged);
});

it('stores nothing of a refetched record of which only a part comes', async () => {
  const { world, direct } = await openNotes();
  expect((await direct.cli('sync', '--select', 'pages')).code).toBe(0);
  const effect = bentBody(({ object, id }) => ({ object: object ?? null, id: id ?? null }));
  world.fake.script({ ...always, on: isSingle, effect });
  const table = world.definition.entities.get('pages' as EntityName)?.table;
  const rows = () => (table === undefined ? new Map<string, never>() : direct.stored(table));
  const before = rows();
  const [[id] = []] = [...before.keys()].map((key) => JSON.parse(key) as readonly string[]);
  const refused = await direct.cli('refetch', 'mine/pages', '--key', `id=${id ?? ''}`);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('but returned only a part of it');
  expect(rows()).toEqual(before);
});

// Proves promise 7.1
it('keeps the rows of records that come in part and all that lies below them, where get does not help either', async () => {
  const { world, direct } = await openNotes();
  expect((await direct.cli('sync')).code).toBe(0);
  showInPart(world.fake);
  const refusal = notionError(403, 'restricted_resource', 'Insufficient permissions for this endpoint.');
  world.fake.script({ ...always, on: isSingle, effect: instead(refusal) });
  const partial = ['users', 'pages', 'data_sources', 'blocks', 'comments'];
  expect(await fullSync(direct)).toEqual({ ...unchanged, code: 3, partial });
  const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
  expect(found).toEqual(noDifferences);
});
