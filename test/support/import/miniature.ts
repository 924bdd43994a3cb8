import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { importService, type Imported } from '../../../src/definitions/import/import-service.ts';
import type { Outcome } from '../../../src/definitions/import/entity-plan.ts';
import type { ModeName } from '../../../src/definitions/import/sent-values.ts';
import { readServiceFile } from '../../../src/definitions/import/service-file.ts';
import { parseYaml } from '../../../src/definitions/read-yaml.ts';

type Json = Readonly<Record<string, unknown>>;

/** A listing of a made-up service, with everything that a test does not name as simple as can be. */
export interface Listing {
  readonly path?: string;
  readonly method?: 'get' | 'post';
  /** `cursor`: a string in the query; or a whole parameter. */
  readonly params?: Readonly<Record<string, Json | string>>;
  readonly meta?: Json;
  readonly extractor?: string | null;
  /** Members of the answer beside `items`. */
  readonly answer?: Json;
  readonly record?: Json;
  /** Members of the operation, by their whole names. */
  readonly more?: Json;
  /** Whether the service has a `get` by id; or its path, such as `/lists/{list_id}/segments/{segment_id}`. */
  readonly get?: boolean | string;
}

export interface Service {
  readonly listings: Readonly<Record<string, Listing>>;
  readonly info?: Json;
  readonly servers?: readonly Json[];
  readonly schemes?: Json;
  readonly more?: Json;
}

const id = { type: 'string', description: 'Unique id of the record' };
const text = { type: 'string' };

/** As YAML: JSON is YAML. */
export function serviceText(service: Service): string {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const [entity, listing] of Object.entries(service.listings)) {
    const { path = `/${entity}`, method = 'get' } = listing;
    (paths[path] ??= {})[method] = operation(entity, listing);
    const one = listing.get === true ? `${path}/{id}` : listing.get;
    if (typeof one === 'string') (paths[one] ??= {})['get'] = getOperation(entity, one, listing);
  }
  return JSON.stringify({
    openapi: '3.1.0',
    info: {
      title: 'Corner Shop API Connector',
      version: '1.2.3',
      'x-airbyte-connector-name': 'corner-shop',
      'x-airbyte-connector-definition-id': '0c1f6f0e-93a7-4d0c-8a2b-6f5e4d3c2b1a',
      ...service.info,
    },
    servers: service.servers ?? [{ url: 'https://api.corner-shop.example/v1' }],
    components: { securitySchemes: service.schemes ?? { key: bearer } },
    paths,
    ...service.more,
  });
}

export const bearer = {
  type: 'http',
  scheme: 'bearer',
  'x-airbyte-auth-config': {
    title: 'Key',
    required: ['api_key'],
    properties: { api_key: { type: 'string' } },
    auth_mapping: { token: '${api_key}' },
  },
};

function operation(entity: string, listing: Listing): Json {
  const { params = {}, meta, extractor = '$.items', answer = {}, record = { id, name: text } } = listing;
  const items = { type: 'array', items: { type: 'object', required: ['id'], properties: record } };
  const schema = extractor === '$' ? items : { type: 'object', properties: { items, ...answer } };
  return {
    'x-airbyte-entity': entity,
    'x-airbyte-action': 'list',
    ...(extractor === null ? {} : { 'x-airbyte-record-extractor': extractor }),
    ...(meta === undefined ? {} : { 'x-airbyte-meta-extractor': meta }),
    parameters: [
      ...pathParams(listing.path ?? ''),
      ...Object.entries(params).map(([name, one]) => parameter(name, one)),
    ],
    responses: { '200': { content: { 'application/json': { schema } } } },
    ...listing.more,
  };
}

function pathParams(path: string): readonly Json[] {
  return [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: text,
  }));
}

function parameter(name: string, one: Json | string): Json {
  return typeof one === 'string'
    ? { name, in: 'query', schema: { type: one } }
    : { name, in: 'query', ...one };
}

function getOperation(entity: string, path: string, { record = { id, name: text } }: Listing): Json {
  const schema = { type: 'object', properties: record };
  return {
    'x-airbyte-entity': entity,
    'x-airbyte-action': 'get',
    parameters: pathParams(path),
    responses: { '200': { content: { 'application/json': { schema } } } },
  };
}

/** What becomes of the service in one mode. */
export function importText(folder: string, text: string, mode: ModeName): Imported {
  const file = join(folder, 'connector.yaml');
  writeFileSync(file, text);
  return importService(readServiceFile(file), mode);
}

/** The same of one listing, `things`. */
export function importListing(folder: string, listing: Listing, mode: ModeName): Imported {
  return importText(folder, serviceText({ listings: { things: listing } }), mode);
}

/** `refused: why`, `todo: place what and why`, or what is written: `converted`. */
export function outcomeOf(imported: Imported, entity = 'things'): string {
  const outcome: Outcome | undefined = imported.outcomes.get(entity);
  switch (outcome?.kind) {
    case undefined:
      return 'left out silently';
    case 'converted': {
      const { open } = outcome.plan;
      const texts = open.map(
        ({ at, text }) => `${String(at[2] === 'fixedParams' ? 'value' : at.at(-1))} ${text}`,
      );
      return open.length === 0 ? 'converted' : `todo: ${texts.join('; ')}`;
    }
    case 'refused':
      return `refused: ${outcome.why}`;
  }
}

/** The written definition as data. */
export function writtenIn({ definition }: Imported): Json {
  const { data, problems } = parseYaml('written.yaml', definition?.text ?? '');
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return data as Json;
}

/** An imported definition of a service at this address, which needs no `address`, and whose guesses a person took. */
export function servedAt(origin: string, definition: string): string {
  return definition
    .replace(/baseUrl: .*\n {2}host:\n(?: {4}.*\n)+/, `baseUrl: ${origin}\n`)
    .replaceAll(/^ {6}address: .*\n/gm, '')
    .replaceAll(/^ {4}unproven: .*\n/gm, '');
}
