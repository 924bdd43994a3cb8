import { expect, it } from 'vitest';
import { withoutTokens } from '../../src/cli/commands/read-commands.ts';
import { registerSecrets } from '../../src/cli/load-config.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { Secret } from '../../src/core/secret.ts';
import { pagingParams } from '../../src/definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { readSettings } from '../../src/settings/load-settings.ts';
import { openRecordMask } from '../../src/settings/mask-settings.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings } from '../../src/settings/settings.ts';
import { createScrubber } from '../../src/telemetry/scrubber.ts';

function settingsWith(redisUrl: string): LocalSettings {
  const text = JSON.stringify({
    api: { baseUrl: 'https://api.example.com', clientId: 'id', clientSecret: 'client-secret-5d1f' },
    sinks: { main: { type: 'sqlite', path: './main.db' } },
    redis: { url: redisUrl },
    http: { token: 'token-of-the-board-77' },
    connectors: {},
  });
  return readSettings({ file: 'here.yaml', text, env: {} });
}

function hiddenBy(settings: LocalSettings, text: string): string {
  const scrubber = createScrubber();
  registerSecrets(settings, scrubber);
  return scrubber.scrub(text);
}

it('hides every secret of the settings', () => {
  const settings = settingsWith('redis://:redis-pass-19@example.com:6379');
  expect(hiddenBy(settings, 'client-secret-5d1f, token-of-the-board-77, redis-pass-19')).toBe(
    '[secret], [secret], [secret]',
  );
});

it('hides a secret anywhere in the settings', () => {
  const known = settingsWith('redis://127.0.0.1:6379');
  // Settings that do not exist yet: in a sink, in a list, in a part of its own.
  const settings = {
    ...known,
    parts: { ...known.parts, alerts: { url: new Secret('secret-in-a-part') } },
    sinks: new Map([['main', { url: new Secret('secret-in-a-sink') } as unknown as SinkSettings]]),
    connectors: new Map([
      [
        'one' as ConnectorName,
        { headers: [{ value: new Secret('secret-in-a-list') }] } as unknown as ConnectorSettings,
      ],
    ]),
  };
  expect(hiddenBy(settings, 'secret-in-a-part secret-in-a-sink secret-in-a-list')).toBe(
    '[secret] [secret] [secret]',
  );
});

it('shows the address of a Redis that has no password', () => {
  const text = 'nothing answers at redis://127.0.0.1:6379';
  expect(hiddenBy(settingsWith('redis://127.0.0.1:6379'), text)).toBe(text);
});

it('a trial of a masked entity shows no token of a page: in no path, parameter, body or answer', async () => {
  const definition = loadDefinitions([builtInDefinitionsFolder]).get('workspace-notes');
  const [entity] = [...(definition?.entities.values() ?? [])].filter(
    ({ pagination }) => pagination.kind === 'pageToken',
  );
  if (entity === undefined) throw new Error('expected an entity whose pages have tokens');
  const [name = ''] = pagingParams(entity.pagination).flatMap((param) =>
    param.role === 'tokenParam' ? [param.name] : [],
  );
  const token = 'tok-0123456789';
  const seen = {
    method: 'GET',
    url: `https://api.example/v1/${token}/pages?x=${token}`,
    body: token,
    status: 200,
    ms: 1,
    wireBytes: 1,
    keys: [],
  };
  const request = { entity: entity.name, params: { [name]: token }, isRoot: true };
  const next = { kind: 'call', request, restartedBecause: null } as const;
  const call = { request, page: null, commit: null, problems: [], error: null, next, exchanges: [seen] };
  const rules = { unknownFields: 'keep', fields: new Map() } as const;
  const masked = {
    ...entity,
    mask: openRecordMask(rules, new Secret(Buffer.alloc(32).toString('base64'))),
  };
  expect(JSON.stringify(withoutTokens(masked, call))).not.toContain(token);
  expect(JSON.stringify(withoutTokens(entity, call))).toContain(token);
});
