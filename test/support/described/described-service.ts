import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { findDefinitions } from '../../../src/definitions/load-definitions.ts';
import { formatProblem } from '../../../src/core/problems.ts';
import type { Definition } from '../../../src/definitions/definition.ts';
import type { Row } from '../expected-rows.ts';
import { callCli, jsonLines, type CliResult } from '../run-cli.ts';
import { sqliteRows } from '../stored-rows.ts';
import { startThirdParty, type ReceivedRequest, type Reply } from '../third-party/start-third-party.ts';

export interface DescribedService {
  readonly origin: string;
  /** In order of arrival. */
  readonly requests: readonly ReceivedRequest[];
  readonly folder: string;
  readonly definition: Definition;
  cli(...args: readonly string[]): Promise<CliResult>;
  /** The report of a sync that must end with 0. */
  sync(...args: readonly string[]): Promise<Record<string, unknown>>;
  /** The rows of an entity's table by key. */
  rows(entity: string): ReadonlyMap<string, Row>;
  /** What the program has written, but for the config. */
  files(): readonly string[];
  /** Writes the config again, with other credentials. */
  signIn(credentials: Readonly<Record<string, string>>): void;
}

export interface DescribedOptions {
  /** `entities`, `credentials` and `upstream` of a definition, as YAML; `$ORIGIN` stands for the service. */
  readonly definition: string;
  /** Of a direct connector; absent: it is read through an API, whose answer to each execute `respond` gives. */
  readonly credentials?: Readonly<Record<string, string>>;
  readonly respond: (request: ReceivedRequest, index: number) => Reply;
  /** More of the connector's settings, as YAML below it. */
  readonly settings?: string;
}

/** A service on this machine, a definition that describes it, and a connector `mine` that reads it into SQLite. */
export async function describedService(options: DescribedOptions): Promise<DescribedService> {
  const { respond, settings = '' } = options;
  const server = await startThirdParty(respond);
  const folder = mkdtempSync(path.join(tmpdir(), 'described-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const definitions = path.join(folder, 'definitions');
  const text = `name: described
title: Described
id: 3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c
rateLimit: { requestsPerSecond: 1000, concurrency: 4 }
${options.definition.replaceAll('$ORIGIN', server.origin)}`;
  mkdirSync(definitions);
  writeFileSync(path.join(definitions, 'described.yaml'), text);
  const { definitions: found, problems } = findDefinitions([definitions]);
  const definition = found.get('described');
  if (definition === undefined) throw new Error(problems.map(formatProblem).join('\n'));
  const signIn = (credentials: DescribedOptions['credentials']): void => {
    const origin = credentials === undefined ? 'id: c-1' : `credentials: ${JSON.stringify(credentials)}`;
    const api = `api: { baseUrl: ${server.origin}, clientId: me, clientSecret: "\${SECRET}" }\n`;
    writeFileSync(
      path.join(folder, 'sync.yaml'),
      `definitions: [./definitions]
allowUpstreamHosts: ['127.0.0.1:${server.port}', 'localhost:${server.port}']
${credentials === undefined ? api : ''}sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  mine:
    definition: described
    ${origin}
    sink: main
${settings}`,
      { mode: 0o600 },
    );
  };
  signIn(options.credentials);
  const cli = (...args: readonly string[]): Promise<CliResult> =>
    callCli([...args, '--config', path.join(folder, 'sync.yaml')], { cwd: folder, env: { SECRET: 'hush' } });
  return {
    origin: server.origin,
    requests: server.requests,
    folder,
    definition,
    cli,
    signIn,
    async sync(...args) {
      const result = await cli('sync', ...args, '--json');
      if (result.code !== 0) throw new Error(`ended with ${result.code}: ${result.stdout}${result.stderr}`);
      const ended = jsonLines(result).find(({ kind }) => kind === 'run-report');
      // `as`: the program's own report.
      if (ended !== undefined) return ended['report'] as Record<string, unknown>;
      throw new Error(`no report: ${result.stdout}`);
    },
    files: () =>
      readdirSync(folder)
        .filter((name) => name.startsWith('main.db'))
        .map((name) => readFileSync(path.join(folder, name), 'latin1')),
    rows(entity) {
      const table = [...definition.entities.values()].find(({ name }) => name === entity)?.table;
      if (table === undefined) throw new Error(`no entity ${entity}`);
      return sqliteRows(path.join(folder, 'main.db'), 'mine', table);
    },
  };
}

/** What an API answers besides: a token, the connector, and each execute with what `result` makes of its request. */
export function hostedAnswers(
  result: (asked: {
    readonly entity: string;
    readonly action: string;
    readonly params: Readonly<Record<string, JsonValue>>;
  }) => { readonly result: unknown; readonly connector_metadata?: unknown },
): DescribedOptions['respond'] {
  return ({ path: asked, body }) => {
    if (asked.endsWith('/token')) return { body: { access_token: 't', expires_in: 3600 } };
    if (asked.endsWith('/definitions/sources')) return { body: { definitions: [] } };
    if (asked.endsWith('/execute')) {
      // `as`: the program under test wrote it.
      const request = JSON.parse(body) as Parameters<typeof result>[0];
      return { body: { status: 'success', ...result(request) } };
    }
    return {
      body: {
        id: 'c-1',
        name: 'Mine',
        source_template: {
          id: 's',
          name: 'Described',
          source_definition_id: '3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c',
        },
      },
    };
  };
}
