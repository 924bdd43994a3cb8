import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import { isJsonObject } from '../../src/core/json.ts';
import { callCli, jsonLines } from '../support/run-cli.ts';
import { textOf } from './paging-kinds.ts';

/** What an import made of a public file. */
export interface Imported {
  readonly hosted: JsonObject | null;
  readonly direct: JsonObject | null;
  /** Entity: what became of it, by mode. */
  readonly outcomes: Readonly<Record<'hosted' | 'direct', Readonly<Record<string, string>>>>;
}

/** Imports as a user does. */
export async function importFile(file: string, folder: string): Promise<Imported> {
  mkdirSync(folder, { recursive: true });
  const args = ['definitions', 'import', file, '--mode', 'both', '-o', folder, '--json'];
  const result = await callCli(args, { cwd: folder });
  const [document] = jsonLines(result);
  if (result.code !== 0 || document === undefined) throw new Error(result.stdout + result.stderr);
  // `as`: the program's own document.
  const { service, imports } = document as unknown as {
    readonly service: { readonly name: string };
    readonly imports: readonly {
      readonly mode: 'hosted' | 'direct';
      readonly entities: Readonly<Record<string, { readonly outcome: string; readonly details: string }>>;
    }[];
  };
  const outcomes = Object.fromEntries(
    imports.map(({ mode, entities }) => [
      mode,
      Object.fromEntries(
        Object.entries(entities).map(([entity, { outcome, details }]) => [
          entity,
          outcome === 'converted' || outcome === 'todo' ? 'converted' : `${outcome}: ${details}`,
        ]),
      ),
    ]),
  );
  const read = (name: string): JsonObject | null =>
    existsSync(join(folder, name)) ? (parse(readFileSync(join(folder, name), 'utf8')) as JsonObject) : null;
  return {
    hosted: read(`${service.name}.yaml`),
    direct: read(`${service.name}-direct.yaml`),
    outcomes: outcomes as Imported['outcomes'],
  };
}

/** The same definition with the made-up service at its addresses, which has no limits. */
export function pointedAt(definition: JsonObject, origin: string): JsonObject {
  const upstream = memberIn(definition, 'upstream');
  const path = /^https?:\/\/[^/]*(.*)$/.exec(textOf(upstream['baseUrl']))?.[1] ?? '';
  const auth = Object.entries(memberIn(upstream, 'auth')).map(([title, way]) => {
    // All ways to sign in ask for tokens at the one place that the service has.
    const own = Object.entries(isJsonObject(way) ? way : {}).map(([name, value]) => [
      name,
      name.endsWith('Url') ? `${origin}/oauth/token` : value,
    ]);
    return [title, Object.fromEntries(own) as JsonObject];
  });
  const { host: _host, ...rest } = upstream;
  return {
    ...definition,
    rateLimit: { requestsPerSecond: 1000, concurrency: 4 },
    upstream: {
      ...rest,
      baseUrl: origin + path,
      auth: Object.fromEntries(auth) as JsonValue,
      limits: { ...memberIn(upstream, 'limits'), requestsPerSecond: 1000, concurrency: 4 },
    },
  };
}

export function memberIn(value: JsonObject, name: string): JsonObject {
  const found = value[name];
  return isJsonObject(found) ? found : {};
}
