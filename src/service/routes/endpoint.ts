import * as z from 'zod';
import type { Clock } from '../../core/clock.ts';
import type { Definition } from '../../definitions/definition.ts';
import { parseRequest, textUpTo } from '../api-error.ts';
import type { LocalConnectors } from '../local-connectors.ts';
import type { ProviderFile } from '../provider.ts';
import type { Principal, ServiceState } from '../state/open-service-state.ts';
import { isPlainName, maxNameLength, plainNameRule } from '../state/open-state-file.ts';

/**
 * Callers of an endpoint. `application`: the whole organization, a scoped token is refused with 403. `workspace`: a
 * scoped token too, which finds only objects of its workspace.
 */
export type Access = 'public' | 'application' | 'workspace';

/**
 * An endpoint is declared once: the server parses by it, the OpenAPI document is made of it. Its shapes are the only
 * description of its requests and answers.
 */
interface Declared<
  Path extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodType,
  Result extends z.ZodType,
> {
  readonly summary: string;
  /** Plain text; an empty line begins a paragraph. */
  readonly description: string;
  readonly access: Access;
  readonly request?: { readonly path?: Path; readonly query?: Query; readonly body?: Body };
  readonly success: Success<Result>;
  /** Status codes in addition to those of every endpoint of its kind, and their causes. */
  readonly refusals?: Readonly<Record<number, string>>;
  readonly example?: Example;
  readonly handle: (
    request: {
      readonly path: z.output<Path>;
      readonly query: z.output<Query>;
      readonly body: z.output<Body>;
    },
    call: Call,
    api: ApiParts,
  ) => Answer<z.input<Result>> | Promise<Answer<z.input<Result>>>;
}

/** A declared endpoint, before it has its route. */
export interface Operation extends Required<
  Omit<Declared<z.ZodObject, z.ZodObject, z.ZodType, z.ZodType>, 'handle'>
> {
  readonly success: Success & { readonly status: number };
  /**
   * Parses the request, untrusted as the framework hands it on, and answers it. Throws `ApiError`: 422 for a request
   * of another shape, and those in `refusals`.
   */
  answer(
    raw: Readonly<Record<'path' | 'query' | 'body', unknown>>,
    call: Call,
    api: ApiParts,
  ): Promise<Answer>;
}

export interface Endpoint extends Operation {
  readonly method: string;
  /** Path as OpenAPI writes it: `/connectors/{id}`. */
  readonly path: string;
  /** Unique; the name of the operation in client code. */
  readonly operationId: string;
  readonly tag: string;
}

export type Tag = 'Authentication' | 'Definitions' | 'Connectors' | 'Execute' | 'Workspaces' | 'Reference';

interface Success<Body extends z.ZodType = z.ZodType> {
  /** Default 200. */
  readonly status?: 200 | 202;
  readonly description: string;
  readonly body: Body;
  /** Media types that come instead, and when. */
  readonly others?: Readonly<Record<string, string>>;
}

/** A request of the OpenAPI document that could be sent as it is. */
interface Example {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface Call {
  /** Whose token came with the request. Throws `ApiError` 401 where none did: on public endpoints. */
  readonly principal: Principal;
  /** Aborted when the client goes away or the service closes. */
  readonly signal: AbortSignal;
}

export type Answer<Body = unknown> =
  | { readonly kind: 'json'; readonly body: Body; readonly headers: Readonly<Record<string, string>> }
  | { readonly kind: 'file'; readonly file: ProviderFile };

export function json<Body>(body: Body, headers: Readonly<Record<string, string>> = {}): Answer<Body> {
  return { kind: 'json', body, headers };
}

/** Declares an endpoint: the shapes type the input and result of `handle`. */
export function endpoint<
  Path extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodType,
  Result extends z.ZodType,
>({ handle, ...declared }: Declared<Path, Query, Body, Result>): Operation {
  const { path, query, body } = declared.request ?? {};
  return {
    request: {},
    refusals: {},
    example: {},
    ...declared,
    success: { status: 200, ...declared.success },
    answer: async (raw, call, api) =>
      await handle(
        {
          path: parsed<Path>(path, raw.path, 'path'),
          query: parsed<Query>(query, raw.query, 'query'),
          body: parsed<Body>(body, raw.body, 'body'),
        },
        call,
        api,
      ),
  };
}

/** Where nothing is declared nothing is handed on. */
function parsed<Shape extends z.ZodType>(shape: Shape | undefined, value: unknown, place: string) {
  return shape === undefined ? (undefined as z.output<Shape>) : parseRequest(shape, value, place);
}

/** Parts of the service that the endpoints need. */
export interface ApiParts {
  readonly state: ServiceState;
  /** Definitions by name. */
  readonly definitions: ReadonlyMap<string, Definition>;
  readonly connectors: LocalConnectors;
  readonly openApi: Record<string, unknown>;
  readonly clock: Clock;
}

/**
 * An object of answers, declared once: the shape of each field, and its value or how that is read from what is shown.
 * `name` is that of its schema in the OpenAPI document; null: it stands inside of another one.
 */
export function shownAs<Source>() {
  return <Shape extends Record<string, z.ZodType>>(
    name: string | null,
    fields: {
      readonly [Field in keyof Shape]: readonly [
        Shape[Field],
        z.input<Shape[Field]> | ((source: Source) => z.input<Shape[Field]>),
      ];
    },
  ) => {
    const entries = Object.entries<readonly [z.ZodType, unknown]>(fields);
    const shape = z.object(Object.fromEntries(entries.map(([field, [type]]) => [field, type])) as Shape);
    return {
      shape: name === null ? shape : shape.meta({ id: name }),
      show: (source: Source) =>
        Object.fromEntries(
          entries.map(([field, [, value]]) => [field, typeof value === 'function' ? value(source) : value]),
        ) as z.input<typeof shape>,
    };
  };
}

/** ISO 8601, UTC. */
export const time = z.iso.datetime();

export const jsonObject = z.record(z.string(), z.unknown());

/** A name that people gave: shown and compared as it is. */
export function givenName(): z.ZodString {
  return textUpTo(maxNameLength).min(1).refine(isPlainName, `Expected ${plainNameRule}.`);
}

/** Any text: an invalid connector id is simply not found. */
const connectorPath = z.object({ id: z.string().describe("The connector's id.") });

/** Properties that endpoints of one connector share. */
export const ofConnector = {
  access: 'workspace',
  request: { path: connectorPath },
  refusals: { 404: 'There is no such connector.' },
  example: { path: { id: 'sample-newsletter' } },
} as const;
