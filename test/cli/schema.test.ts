import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect } from 'vitest';
import { declarationOf } from '../../src/cli/commands/schema.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { listingOf, type SampleAccount } from '../../src/sample/sample-account.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, writeCliConfig } from '../support/cli-config.ts';
import { it } from '../support/it.ts';
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
