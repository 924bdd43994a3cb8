import { appendFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, describe, expect } from 'vitest';
import { declarationOf } from '../../src/cli/commands/schema.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { listingOf, type SampleAccount } from '../../src/sample/sample-account.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, writeCliConfig } from '../support/cli-config.ts';
import { it } from '../support/it.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';
import { serveSamples } from '../support/serve-samples.ts';

describe('schema', () => {
  const odd = 'red \u001b[31m\u202e';
  let folder: string;
  let service: Service;
  let config: string;
  let edit: ((record: JsonObject) => JsonObject) | null = null;

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
        wrap: drifting,
      })),
    });
    config = await writeCliConfig(folder, service.url);
  });

  afterAll(() => service.close());

  function drifting(account: SampleAccount): SampleAccount {
    return {
      list: (entity, params) => {
        const listing = account.list(entity, params);
        if (entity !== 'automations' || edit === null) return listing;
        return listingOf(listing.slice(0, Number.POSITIVE_INFINITY).map(edit), listing.metadata);
      },
      get: (entity, params) => account.get(entity, params),
    };
  }

  const cli = (args: readonly string[]): Promise<CliResult> =>
    callCli(['--config', config, ...args], { cwd: folder, env: { SECRET: cliSecret } });

  describe('schema diff', () => {
    it('says that nothing was synced yet, and makes no sink', async () => {
      const result = await cli(['schema', 'diff']);
      expect(result.code).toBe(0);
      expect(result.stdout).toBe(
        'newsletter: not synced yet (sink main)\nwiki: not synced yet (sink main)\n',
      );
      expect(existsSync(join(folder, 'main.db'))).toBe(false);
    });

    it('says that there is none', async () => {
      await cli(['sync', 'newsletter', '--select', 'automations']);
      const result = await cli(['schema', 'diff', 'newsletter']);
      expect(result).toMatchObject({
        code: 0,
        stdout: 'newsletter: no drift (email-marketing, sink main)\n',
      });
      expect(jsonLines(await cli(['schema', 'diff', 'newsletter', '--json']))).toEqual([
        {
          connectors: [{ connector: 'newsletter', definition: 'email-marketing', isSynced: true, drift: [] }],
        },
      ]);
    });

    it('lists every field with its types, where it is, since when, and a line to declare it', async () => {
      edit = (record) => ({ ...record, nickname: 'x', emails_sent: 'many', [odd]: 1 });
      await cli(['sync', 'newsletter', '--select', 'automations']);
      const result = await cli(['schema', 'diff', 'newsletter']);
      expect(result.code).toBe(0);
      const [heading, ...table] = result.stdout.trimEnd().split('\n');
      expect(heading).toBe(
        'newsletter: 3 fields not declared by email-marketing (sink main); paste the last column below "fields:" to declare them',
      );
      expect(
        table.map((line) =>
          line
            .trim()
            .replaceAll(/\s{2,}/g, ' | ')
            .replace(/\d{4}-\S*Z/, 'then'),
        ),
      ).toEqual([
        'entity | field | came as | is | kept in | first seen | to declare it',
        'automations | emails_sent | string | does not fit integer | _extra | then',
        'automations | nickname | string | undeclared | _extra | then | nickname: string',
        'automations | red \ufffd[31m\ufffd | integer | undeclared | _extra | then',
      ]);
      const [document] = jsonLines(await cli(['schema', 'diff', '--json']));
      expect(document).toMatchObject({
        connectors: [
          {
            connector: 'newsletter',
            drift: [
              { entity: 'automations', field: 'emails_sent', kind: 'misfit', line: null },
              { field: 'nickname', types: ['string'], place: 'extra', line: 'nickname: string' },
              { field: odd, types: ['integer'], line: null },
            ],
          },
          { connector: 'wiki', isSynced: true, drift: [] },
        ],
      });
    });

    it('knows only connectors of the config', async () => {
      const result = await cli(['schema', 'diff', 'nobody']);
      expect(result.code).toBe(2);
      expect(result.stderr).toContain('Unknown connector "nobody"; the config has newsletter, wiki.');
    });
  });

  describe('schema acknowledge', () => {
    it('marks new fields as known, says which, and is noted with who did it', async () => {
      edit = null;
      await cli(['sync', 'newsletter', '--select', 'automations', '--full']);
      edit = (record) => ({ ...record, nickname: 'x', emails_sent: 'many', [odd]: 1, later: true });
      await cli(['sync', 'newsletter', '--select', 'automations', '--full']);
      const { code, stdout } = await cli(['schema', 'acknowledge', 'newsletter']);
      expect([code, stdout.split('\n')]).toEqual([
        0,
        [
          'newsletter: 4 fields marked as known',
          '  automations.emails_sent: misfit',
          '  automations.later: undeclared',
          '  automations.nickname: undeclared',
          '  automations.red \ufffd[31m\ufffd: undeclared',
          '',
        ],
      ]);
      const [document] = jsonLines(await cli(['actions', 'newsletter', '--json', '--limit', '1']));
      expect(document).toMatchObject({
        actions: [{ action: 'acknowledge-fields', connector: 'newsletter' }],
      });
      expect(await cli(['schema', 'acknowledge', 'newsletter'])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('newsletter has no new fields to acknowledge.') as string,
      });
    });
  });

  describe('the line that declares a field', () => {
    const undeclared = { kind: 'undeclared' } as const;

    it.each([
      [['string'], 'nick: string'],
      [['null', 'boolean'], 'nick: boolean'],
      [['integer', 'number'], 'nick: number'],
      [['integer', 'string'], 'nick: any'],
      [['null'], 'nick: any'],
    ] as const)('says of %j: %s', (types, line) => {
      expect(declarationOf({ ...undeclared, field: 'nick', types })).toBe(line);
    });

    it.each(['null', 'yes', 'off'])(
      'quotes the name %s, which YAML would read as something else',
      (field) => {
        expect(declarationOf({ ...undeclared, field, types: ['object'] })).toBe(`'${field}': object`);
      },
    );

    it.each(['Nick', '_own', 'a b', '*', 'constructor', ''])(
      'is missing for %j, which nothing could declare',
      (field) => {
        expect(declarationOf({ ...undeclared, field, types: ['string'] })).toBeNull();
      },
    );
  });
});

describe('schema widen', () => {
  let folder: string;
  let service: Service;
  let config: string;
  let env: Record<string, string>;
  const schema = `widened_${process.pid}`;
  /** What the service says of a list, beside its own fields. */
  let rating: (id: string) => JsonObject = () => ({ rating: 7, is_open: true });

  it.beforeAll(async ({ fileFolder: made }) => {
    // Of its own: another service has filled the sink of the file's folder.
    folder = join(made, 'widen');
    mkdirSync(folder);
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
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: expect.any(String) as string });
    return stdout;
  }

  async function rows(): Promise<readonly JsonObject[]> {
    return jsonLines({
      stdout: await cli('export', 'newsletter/lists'),
    } as CliResult) as readonly JsonObject[];
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
    expect((await rows()).find(({ id }) => id === first?.['id'])).toMatchObject({
      _extra: { rating: 'n/a' },
    });

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
    const [report] = jsonLines(
      await call('sync', 'newsletter', '--select', 'lists', '--full', '--json'),
    ).slice(-1);
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
});
