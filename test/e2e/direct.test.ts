import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openApp } from '../../src/app/open-app.ts';
import { systemClock } from '../../src/core/clock.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { PageCounts } from '../../src/core/records.ts';
import { readSettings, withParts } from '../../src/settings/load-settings.ts';
import type { Row } from '../support/expected-rows.ts';
import { jsonLines } from '../support/run-cli.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { testCredentials as application } from '../support/sync-once.ts';
import { repeats } from '../support/trials.ts';
import { jsonAnswer } from '../support/upstream/fake-server.ts';
import { openDirectWorld, worldRows, type DirectWorld } from '../support/upstream/direct-world.ts';
import { bentBody, edgePage, instead, onPath } from '../support/upstream/faults.ts';
import { notionError, type FakeNotion } from '../support/upstream/notion.ts';
import { opened, serveWorlds, throughApi } from '../support/upstream/served-world.ts';
import { deskWorld, mailchimpWorld, notionWorld } from '../support/upstream/upstream-world.ts';

const withBlocks = '    entities: { comments: { parents: [pages, blocks] } }\n';

const services = [
  ['Mailchimp', () => mailchimpWorld({ as: 'my-mail', size: 'tiny' }), ''],
  ['Notion', () => notionWorld({ as: 'my-notes', size: 'tiny' }), withBlocks],
  ['a help desk', () => deskWorld({ as: 'my-desk' }), '    exclude: [exports]\n'],
] as const;

describe('a connector with its own credentials, and no API', () => {
  it.each(services)(
    'stores every record of %s as the service has it, and writes nothing the second time',
    async (_name, openWorld, settings) => {
      await using world = await openWorld();
      await using direct = openDirectWorld(world, { settings });
      const result = await direct.cli('sync');
      expect({ code: result.code, stderr: result.stderr }).toMatchObject({ code: 0 });
      const differences = differencesFrom(worldRows(world), world.definition, (table) =>
        direct.stored(table),
      );
      expect(differences).toEqual(noDifferences);
      const [report] = (await direct.json('sync')).filter(({ kind }) => kind === 'report');
      expect(written(report)).toEqual({ inserted: 0, updated: 0, deleted: 0 });
      noSecretIn(direct, [result.stdout, result.stderr]);
    },
  );
});

function written(report: Record<string, unknown> | undefined): object {
  const { entities = [] } = (report ?? {}) as {
    entities?: readonly { counts: Record<'inserted' | 'updated' | 'deleted', number> }[];
  };
  const sum = (name: 'inserted' | 'updated' | 'deleted'): number =>
    entities.reduce((all, { counts }) => all + counts[name], 0);
  return { inserted: sum('inserted'), updated: sum('updated'), deleted: sum('deleted') };
}

/** Neither in the output of the program, nor in a file that it wrote. */
function noSecretIn({ folder, config, env }: DirectWorld, texts: readonly string[]): void {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => file !== config);
  expect(files.length).toBeGreaterThan(0);
  const written = [...texts, ...files.map((file) => readFileSync(file, 'latin1'))];
  for (const secret of Object.values(env)) {
    expect(written.some((text) => text.includes(secret))).toBe(false);
  }
}

const revisions = repeats('RUNS', { share: 2, full: 10 });
const hourMs = 60 * 60 * 1000;

it(`equals the account after each of ${revisions} full reads of one that changes`, async () => {
  await using world = await mailchimpWorld({ as: 'my-mail' });
  await using direct = openDirectWorld(world, { more: 'guards: { maxDeleteShare: 1 }\n' });
  const settings = withParts(readSettings({ file: direct.config, env: direct.env }), 'access');
  const [mine] = settings.connectors.values();
  if (mine === undefined) throw new Error('expected a connector');
  let laterMs = 0;
  const clock = { ...systemClock, now: () => Date.now() + laterMs };
  await using app = await openApp({ settings, clock, command: 'a test' });
  const asked = { globs: { select: [], exclude: [] }, onEvent: () => undefined, run: { isFull: true } };
  const kept = new Map<string, Map<string, Row>>();
  for (let revision = 0; revision <= revisions; revision += 1) {
    world.moveTo(revision);
    const report = await app.sync(mine, { ...asked, signal: new AbortController().signal });
    expect({ revision, outcome: report.outcome, failures: report.failures }).toEqual({
      revision,
      outcome: 'ok',
      failures: [],
    });
    const truth = truthUntilNow(world, kept);
    const found = differencesFrom(truth, world.definition, (table) => direct.stored(table));
    expect({ revision, ...found }).toEqual({ revision, ...noDifferences });
    // Fields that change all the time are stored again after a day.
    laterMs += 25 * hourMs;
  }
});

/** What happened once stays in the sink, also where the service no longer lists it. */
function truthUntilNow(
  world: Parameters<typeof worldRows>[0],
  kept: Map<string, Map<string, Row>>,
): ReturnType<typeof worldRows> {
  const lasting = [...world.definition.entities.values()].filter(({ deletes }) => deletes === 'never');
  const names = new Set<string>(
    lasting.flatMap(({ table, explodedTable }) => [
      table.entity,
      ...(explodedTable === null ? [] : [explodedTable.entity]),
    ]),
  );
  return new Map(
    [...worldRows(world)].map(([table, rows]) => {
      if (!names.has(table)) return [table, rows];
      const all = kept.get(table) ?? new Map<string, Row>();
      for (const [key, row] of rows) all.set(key, row);
      kept.set(table, all);
      return [table, all];
    }),
  );
}

const members = onPath('/lists/{list_id}/members');

describe('a direct sync of a service in trouble', () => {
  it('waits where it is asked to, repeats what failed, and stores everything', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    world.fake.script({
      on: members,
      effect: instead(jsonAnswer(429, { status: 429, title: 'Too Many Requests' }, { 'retry-after': '1' })),
    });
    world.fake.script({
      on: onPath('/campaigns'),
      effect: instead(jsonAnswer(500, { status: 500, title: 'Internal Server Error' })),
    });
    world.fake.script({
      on: onPath('/reports'),
      effect: instead({ status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' }),
    });
    const result = await direct.cli('sync');
    expect({ code: result.code, stderr: result.stderr }).toMatchObject({ code: 0 });
    expect(result.stdout).toMatch(/ 3 retries/);
    const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
    expect(found).toEqual(noDifferences);
  });

  // Proves promise 10
  it('stops when the key is revoked on the way, keeps what was stored, and resumes with it', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    const revoked = jsonAnswer(401, {
      status: 401,
      title: 'API Key Invalid',
      detail: `Not a key: ${direct.env['MY_API_KEY'] ?? ''}`,
    });
    world.fake.script({ on: members, times: 100, effect: instead(revoked) });
    const stopped = await direct.cli('sync');
    expect(stopped.code).toBe(4);
    const text = stopped.stdout + stopped.stderr;
    expect(text).toContain("check the connector's credentials in the config");
    for (const secret of Object.values(direct.env)) expect(text).not.toContain(secret);
    const lists = [...world.definition.entities.values()].find(({ name }) => name === 'lists');
    if (lists === undefined) throw new Error('expected lists');
    expect(direct.stored(lists.table).size).toBeGreaterThan(0);
    world.fake.heal();
    expect((await direct.cli('sync')).code).toBe(0);
    const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
    expect(found).toEqual(noDifferences);
  });

  it('says what came where a network in front of the service refuses calls, and that the service did not ask for the pause', async () => {
    await using world = await mailchimpWorld({ as: 'my-mail' });
    await using direct = openDirectWorld(world);
    world.fake.script({ on: onPath('/automations'), times: 100, effect: edgePage(403) });
    const result = await direct.cli('sync');
    expect(result.code).toBe(3);
    expect(result.stdout).toMatch(
      /! refused by the network in front of \S+ \(HTTP 403\), so no more calls are made until \S+Z; run it again then/,
    );
    expect(result.stdout + result.stderr).not.toMatch(/asked to wait|asked for quiet/);
    world.fake.heal();
    expect((await direct.cli('sync')).code).toBe(0);
  });
});

it('takes an account over from direct to served and back, and from and to an API that names no account, without a row rewritten', async () => {
  await using world = await mailchimpWorld({ as: 'my-mail' });
  await using direct = openDirectWorld(world);
  const served = await serveWorlds([world]);
  const servedId = await served.connect(world);
  const hosted = await serveSamples({
    port: 0,
    ...application,
    definitions: new Map([[world.definition.name, world.definition]]),
    accounts: [
      {
        connectorId: 'c-hosted',
        definitionName: world.definition.name,
        workspace: 'default',
        seed: 1,
        size: 'tiny',
        account: world.fake.account,
      },
    ],
  });
  onTestFinished(() => hosted.close());
  const own = readFileSync(direct.config, 'utf8');
  expect((await direct.cli('sync')).code).toBe(0);
  const first = allRows(direct);
  for (const config of [
    throughApi(own, served.service.url, servedId),
    throughApi(own, hosted.url, 'c-hosted'),
    own,
  ]) {
    writeFileSync(direct.config, config);
    expect((await direct.cli('check')).code).toBe(2);
    const refused = await direct.cli('sync');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('connector-sync adopt mine');
    expect((await direct.cli('adopt', 'mine', '--yes')).code).toBe(0);
    expect((await direct.cli('sync', '--full')).code).toBe(0);
    expect(allRows(direct)).toEqual(first);
  }
});

/** Every row of every table, with the number of its last change. */
function allRows({ database }: DirectWorld): readonly unknown[] {
  const db = new Database(database, { readonly: true });
  try {
    const tables = db
      .prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'mine\\_\\_%' ESCAPE '\\' ORDER BY 1",
      )
      .pluck()
      .all() as readonly string[];
    return tables.flatMap((name) =>
      db.prepare(`SELECT '${name}' AS t, _seq, _hash, _deleted_at FROM "${name}" ORDER BY _seq`).all(),
    );
  } finally {
    db.close();
  }
}

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
