import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { findDefinitions } from '../../../src/definitions/load-definitions.ts';
import { formatProblem } from '../../../src/core/problems.ts';
import { newFolder, openProgram } from '../program.ts';
import { sqliteRows } from '../expected-rows.ts';
import { startThirdParty, type ReceivedRequest, type Reply } from '../third-party/start-third-party.ts';

export type DescribedService = Awaited<ReturnType<typeof describedService>>;

export interface DescribedOptions {
  /** `entities`, `credentials` and `upstream` of a definition, as YAML; `$ORIGIN` stands for the service. */
  readonly definition: string;
  /**
   * Of a direct connector, which has none where this is null; absent: it is read through an API, whose answer to each
   * execute `respond` gives.
   */
  readonly credentials?: Readonly<Record<string, string>> | null;
  readonly respond: (request: ReceivedRequest, index: number) => Reply | Promise<Reply>;
  /** More of the connector's settings, as YAML below it. */
  readonly settings?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Writes the definition `described` into a new folder, which goes with the test. */
export function describedFolder(definition: string, origin: string): string {
  const folder = newFolder();
  mkdirSync(path.join(folder, 'definitions'));
  writeFileSync(
    path.join(folder, 'definitions', 'described.yaml'),
    `name: described
title: Described
id: 3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c
rateLimit: { requestsPerSecond: 1000, concurrency: 4 }
${definition.replaceAll('$ORIGIN', origin)}`,
  );
  return folder;
}

/** A service on this machine, a definition that describes it, and a connector `mine` that reads it into SQLite. */
export async function describedService(options: DescribedOptions) {
  const { respond, settings = '' } = options;
  const server = await startThirdParty(respond);
  const folder = describedFolder(options.definition, server.origin);
  const { definitions: found, problems } = findDefinitions([path.join(folder, 'definitions')]);
  const definition = found.get('described');
  if (definition === undefined) throw new Error(problems.map(formatProblem).join('\n'));
  /** Writes the config, with these credentials. */
  const signIn = (credentials: DescribedOptions['credentials'], more = settings) => {
    const given = credentials === null ? '' : `credentials: ${JSON.stringify(credentials)}`;
    const origin = credentials === undefined ? 'id: c-1' : given;
    const api = `api: { baseUrl: ${server.origin}, clientId: me, clientSecret: "\${SECRET}" }\n`;
    return openProgram(
      `definitions: [./definitions]
allowUpstreamHosts: ['127.0.0.1:${server.port}', 'localhost:${server.port}']
${credentials === undefined ? api : ''}sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  mine:
    definition: described
    ${origin}
    sink: main
${more}`,
      { env: { SECRET: 'hush', ...options.env }, folder },
    );
  };
  const { cli, json, [Symbol.asyncDispose]: remove } = signIn(options.credentials);
  onTestFinished(remove);
  return {
    origin: server.origin,
    /** In order of arrival. */
    requests: server.requests,
    folder,
    definition,
    cli,
    json,
    signIn: (credentials: DescribedOptions['credentials'], more?: string): void =>
      void signIn(credentials, more),
    /** The report of a sync that must end with 0. */
    async sync(...args: readonly string[]): Promise<Record<string, unknown>> {
      const ended = (await json('sync', ...args)).find(({ kind }) => kind === 'run-report');
      if (ended === undefined) throw new Error('no report');
      // `as`: the program's own report.
      return ended['report'] as Record<string, unknown>;
    },
    /** What the program has written, but for the config. */
    files: () =>
      readdirSync(folder)
        .filter((name) => name.startsWith('main.db'))
        .map((name) => readFileSync(path.join(folder, name), 'latin1')),
    /** The rows of an entity's table by key. */
    rows(entity: string) {
      const table = [...definition.entities.values()].find(({ name }) => name === entity)?.table;
      if (table === undefined) throw new Error(`no entity ${entity}`);
      return sqliteRows(path.join(folder, 'main.db'), 'mine', table);
    },
  };
}

interface KeyedOptions extends Pick<DescribedOptions, 'settings' | 'respond'> {
  /** `entities` of the definition, and what else stands beside them, as YAML. */
  readonly entities: string;
  /** `upstream.entities`, as YAML on one line. */
  readonly requests: string;
}

/** A definition of a service with one account, which a key opens. */
export function keyedDefinition({ entities, requests }: Pick<KeyedOptions, 'entities' | 'requests'>): string {
  return `
credentials: [{ title: Key, fields: { api_key: {} } }]
${entities}
upstream:
  baseUrl: $ORIGIN
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /me, identity: id }
  limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities: ${requests}
`;
}

/** A service with one account, which a key opens. `respond` answers what is asked beside the account. */
export async function keyedService({ entities, requests, respond, ...more }: KeyedOptions) {
  return await describedService({
    definition: keyedDefinition({ entities, requests }),
    credentials: { api_key: 'k' },
    respond: (request, index) => (request.path === '/me' ? { body: { id: 'a' } } : respond(request, index)),
    ...more,
  });
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
    const source_definition_id = '3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c';
    return {
      body: {
        id: 'c-1',
        name: 'Mine',
        source_template: { id: 's', name: 'Described', source_definition_id },
      },
    };
  };
}
