import { describe, expect, it } from 'vitest';
import { allowedHost } from '../../src/settings/texts.ts';
import { readSettings, withParts } from '../../src/settings/load-settings.ts';
import { ProblemsError } from '../../src/core/problems.ts';
import type { LocalSettings } from '../../src/settings/settings.ts';

const key = 'planted-key-us10';
const start = 'sinks: { main: { type: sqlite, path: ./main.db } }\n';

function read(connectors: string, env: Readonly<Record<string, string>> = { KEY: key }): LocalSettings {
  return readSettings({ file: 'config.yaml', text: `${start}connectors:\n${connectors}`, env });
}

function problemsOf(connectors: string, more = ''): readonly string[] {
  try {
    readSettings({
      file: 'config.yaml',
      text: `${start}${more}connectors:\n${connectors}`,
      env: { KEY: key },
    });
    return [];
  } catch (error) {
    if (!(error instanceof ProblemsError)) throw error;
    return error.problems.map(({ path, message }) => `${path}: ${message}`);
  }
}

const mail = (credentials: string, more = ''): string =>
  `  mail: { definition: email-marketing, credentials: ${credentials}, sink: main${more} }\n`;

describe('credentials of a connector', () => {
  // Proves promise 10
  it('stand in for the API, and are never shown', () => {
    const settings = withParts(read(mail('{ api_key: "${KEY}" }')), 'access', 'redis');
    expect(settings.access).toBe(null);
    const [connector] = settings.connectors.values();
    expect(connector?.address.kind).toBe('direct');
    const shown = JSON.stringify([...settings.connectors]);
    expect(shown).not.toContain(key);
  });

  it('may be missing where nothing is read', () => {
    const settings = read(mail('{ api_key: "${KEY}" }'), {});
    expect(settings.connectors.size).toBe(1);
    expect(() => withParts(settings, 'redis')).not.toThrow();
    expect(() => withParts(settings, 'access')).toThrow('KEY is not set');
  });

  it('leave commands that need an API without one', () => {
    expect(() => withParts(read(mail('{ api_key: "${KEY}" }')), 'api')).toThrow(
      'needs a Connector Execution API, and the config has none',
    );
  });

  it.each([
    [
      'a field that is missing',
      mail('{ data_center: us1 }'),
      'connectors.mail.credentials.api_key: expected a text',
    ],
    ['an unknown field', mail('{ api_key: "${KEY}", planted: x }'), 'no other fields than those of API key'],
    ['an address as well', mail('{ api_key: "${KEY}" }', ', id: c-1'), 'expected either credentials'],
    [
      'a number',
      mail('{ api_key: 12345 }'),
      'connectors.mail.credentials.api_key: expected a string, got a number',
    ],
    [
      'a type that only an API can read',
      '  files: { definition: document-library, credentials: { token: x }, sink: main }\n',
      'does not say how its service is called',
    ],
    [
      'a refresh token that changes with each use',
      '  wiki: { definition: workspace-notes, credentials: { client_id: a, client_secret: b, access_token: c, refresh_token: d }, sink: main }\n',
      'each use of it makes another one',
    ],
    [
      'a connector without any, and no API',
      `${mail('{ api_key: "${KEY}" }')}  wiki: { definition: workspace-notes, id: c-2, sink: main }\n`,
      'api: is missing; expected an object; connectors without credentials are read through it',
    ],
  ])('with %s are refused', (_what, connectors, expected) => {
    const problems = problemsOf(connectors).join('\n');
    expect(problems).toContain(expected);
    expect(problems).not.toContain('planted');
  });

  it('are of no interest for a type that only an API can read', () => {
    const text = '  files: { definition: document-library, credentials: { token: x }, sink: main }\n';
    expect(problemsOf(text)).toHaveLength(1);
  });

  it('take a place in the defaults that an id would take', () => {
    const settings = readSettings({
      file: 'config.yaml',
      text: `api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b }\n${start}defaults: { definition: email-marketing, sink: main, credentials: { api_key: "\${KEY}" } }\nconnectors: { one: {}, two: { id: c-2 } }\n`,
      env: { KEY: key },
    });
    expect([...settings.connectors.values()].map(({ address }) => address.kind)).toEqual(['direct', 'id']);
  });

  it('name hosts that may be reached at private addresses, and ports of them', () => {
    const text = mail('{ api_key: "${KEY}" }');
    expect(problemsOf(text, 'allowUpstreamHosts: [https://tickets.internal, "a:0", "a:70000"]\n')).toEqual(
      [0, 1, 2].map((at) => `allowUpstreamHosts.${at}: expected host or host:port, without scheme and path`),
    );
    expect(['Tickets.Internal', '[::0001]:080', '127.1:8080', '::1', 'a/b'].map(allowedHost)).toEqual([
      'tickets.internal',
      '[::1]:80',
      '127.0.0.1:8080',
      null,
      null,
    ]);
  });
});
