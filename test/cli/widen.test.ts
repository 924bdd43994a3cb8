import { appendFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, expect } from 'vitest';
import { cliSecret, writeCliConfig } from '../support/cli-config.ts';
import { it } from '../support/it.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';
import { serveSamples } from '../support/serve-samples.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { listingOf } from '../../src/sample/sample-account.ts';
import type { Service } from '../../src/service/start-service.ts';

let folder: string;
let service: Service;
let config: string;
let env: Record<string, string>;
const schema = `widened_${process.pid}`;
/** What the service says of a list, beside its own fields. */
let rating: (id: string) => JsonObject = () => ({ rating: 7, is_open: true });

it.beforeAll(async ({ fileFolder: made }) => {
  folder = made;
  service = await serveSamples({
    port: 0,
    clientId: 'local',
    clientSecret: cliSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: ['email-marketing', 'workspace-notes'].map((definitionName, index) => ({
      connectorId: index === 0 ? 'c-news' : 'c-wiki',
      workspace: 'default',
      definitionName,
      seed: 1,
      size: 'tiny',
      wrap: (account) => ({
        list: (entity, params) => {
          const listing = account.list(entity, params);
          if (entity !== 'lists') return listing;
          return listingOf(listing.slice(0, Number.POSITIVE_INFINITY).map(rated), listing.metadata);
        },
        get: (entity, params) => {
          const record = account.get(entity, params);
          return record === null || entity !== 'lists' ? record : rated(record);
        },
      }),
    })),
  });
  config = await writeCliConfig(folder, service.url);
  const lines = readFileSync(config, 'utf8').replace(
    '    definition: email-marketing\n',
    '    definition: email-marketing\n    include: [lists]\n    onSchemaChange: evolve\n    history: true\n',
  );
  writeFileSync(config, lines);
  appendFileSync(
    config,
    `publish:
  lake: { type: files, directory: ./lake, when: by-hand }
  desk: { type: duckdb, path: ./desk.duckdb, when: by-hand }
  mart: { type: postgres, url: '\${MART_URL}', schema: ${schema}, when: by-hand }
`,
  );
  env = { SECRET: cliSecret, MART_URL: (await sharedPostgres()).url };
});

afterAll(() => service.close());

/** Ids of this service are texts. */
function idOf(record: JsonObject | undefined): string {
  const id = record?.['id'];
  return typeof id === 'string' ? id : '';
}

function rated(record: JsonObject): JsonObject {
  return { ...record, ...rating(idOf(record)) };
}

const call = (...args: readonly string[]): Promise<CliResult> =>
  callCli(['--config', config, ...args], { cwd: folder, env });

async function cli(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await call(...args);
  expect({ args, code, stderr }).toMatchObject({ code: 0 });
  return stdout;
}

async function rows(): Promise<readonly JsonObject[]> {
  return jsonLines({ stdout: await cli('export', 'newsletter/lists') } as CliResult) as readonly JsonObject[];
}

/** What the entity's rows hold in each target. */
async function published() {
  for (const target of ['lake', 'desk', 'mart']) await cli('publish', target);
  const client = new pg.Client({ connectionString: env['MART_URL'] });
  await client.connect();
  const mart = await client.query(`SELECT rating, is_open FROM ${schema}.newsletter__lists ORDER BY id`);
  await client.end();
  const files = readdirSync(join(folder, 'lake'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.parquet') && path.includes('/lists/'))
    .map((path) => join(folder, 'lake', path));
  const ask = async (from: string) =>
    await askDuckdbFile(join(folder, 'desk.duckdb'), `SELECT rating, is_open FROM ${from} ORDER BY id`);
  return {
    mart: mart.rows,
    desk: await ask('newsletter.lists'),
    lake: await ask(`'${files.toSorted().at(-1)}'`),
  };
}

const unchanged = { inserted: 0, updated: 0 };

// Proves promise 7.2
it('makes a text column of one of numbers by one act, in the sink and in every target', async () => {
  await cli('sync', 'newsletter');
  await published();
  const [first, ...others] = await rows();
  rating = (id) => (id === first?.['id'] ? { rating: 'n/a', is_open: true } : { rating: 7, is_open: true });
  await cli('sync', 'newsletter', '--full');
  expect((await rows()).find(({ id }) => id === first?.['id'])).toMatchObject({ _extra: { rating: 'n/a' } });

  const command = 'schema widen newsletter/lists rating';
  expect(await cli('schema', 'diff', 'newsletter')).toContain(
    `To make a text column of rating: npx --no-install connector-sync ${command}`,
  );
  const [diff] = jsonLines(await call('schema', 'diff', 'newsletter', '--json'));
  expect(diff).toMatchObject({
    connectors: [
      {
        drift: expect.arrayContaining([
          expect.objectContaining({ field: 'rating', canWiden: true }),
        ]) as unknown,
      },
    ],
  });

  const said = await cli(...command.split(' '));
  expect(said).toContain(
    'rating becomes a text column when the next run begins: npx --no-install connector-sync sync newsletter --select lists',
  );
  const [report] = jsonLines(await call('sync', 'newsletter', '--select', 'lists', '--full', '--json')).slice(
    -1,
  );
  expect(report).toMatchObject({ report: { outcome: 'ok', entities: [{ counts: unchanged }] } });
  const texts = [first, ...others].map((row) => [idOf(row), row === first ? 'n/a' : '7', undefined]);
  expect((await rows()).map((row) => [row['id'], row['rating'], row['_extra']])).toEqual(
    expect.arrayContaining(texts),
  );
  expect(await cli('schema', 'diff', 'newsletter')).not.toContain('schema widen');

  const targets = await published();
  const expected = expect.arrayContaining(['n/a', ...others.map(() => '7')]) as unknown;
  for (const found of Object.values(targets)) {
    expect(found.map((row) => (row as JsonObject)['rating'])).toEqual(expected);
    expect(found).toHaveLength(texts.length);
  }

  const again = jsonLines(await call('sync', 'newsletter', '--full', '--json')).at(-1);
  expect(again).toMatchObject({ report: { outcome: 'ok', entities: [{ counts: unchanged }] } });
  expect((await call('audit', 'newsletter/lists')).stdout).toContain('2 the same');
  const [refetched] = jsonLines(
    await call('refetch', 'newsletter/lists', '--key', `id=${idOf(others[0])}`, '--json'),
  );
  expect(refetched).toMatchObject({ result: 'unchanged' });
  const [noted] = jsonLines(await call('actions', 'newsletter', '--json'));
  expect(noted).toMatchObject({
    actions: expect.arrayContaining([
      expect.objectContaining({ action: 'widen-column', entity: 'lists' }),
    ]) as unknown,
  });
});

it.each([
  ['lists name', 'newsletter/lists has name from its definition. Declare it there as "string".'],
  [
    'lists nothing',
    'Expected an added column of numbers or booleans of newsletter/lists (is_open), got "nothing".',
  ],
  ['campaigns rating', 'Nothing of newsletter/campaigns is stored, so no column can be widened.'],
])('refuses schema widen newsletter/%s', async (words, text) => {
  const result = await call('schema', 'widen', ...`newsletter/${words}`.split(' '));
  expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining(text) as string });
});
