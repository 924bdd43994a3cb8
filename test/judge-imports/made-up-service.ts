import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import { scopeText, type Account } from './made-up-account.ts';
import { Refused, textOf, type Ask, type Page } from './paging-kinds.ts';
import type { PublicFile } from './public-file.ts';
import type { Listing, Vendor } from './vendor.ts';

export interface MadeUpService extends AsyncDisposable {
  readonly origin: string;
  readonly port: number;
  /** Of listings, so far. */
  readonly calls: () => number;
  /** The first answers that were errors. */
  readonly refusals: readonly string[];
}

interface ServiceOptions {
  readonly vendor: Vendor;
  readonly file: PublicFile;
  readonly account: Account;
  /** No page is longer; null: as the vendor documents it. */
  readonly cap?: number | null;
  /** A parent that nothing is known of has an empty listing. */
  readonly isOpen?: boolean;
  /** Before each call of a listing, which it holds up. */
  readonly onCall?: (call: number) => void;
}

interface Route {
  readonly entity: string;
  readonly listing: Listing;
  readonly method: string;
  readonly path: RegExp;
  readonly names: readonly string[];
}

/** Answers as the vendor's table says, from the records of the account, and refuses what the vendor refuses. */
export async function openMadeUpService(options: ServiceOptions): Promise<MadeUpService> {
  const { vendor, file, account, cap = null, isOpen = false, onCall } = options;
  const routes = routesOf(vendor, file, account);
  const refusals: string[] = [];
  let calls = 0;
  const answer = (request: IncomingMessage, text: string, origin: string): Page & { body: JsonValue } => {
    const self = new URL(request.url ?? '/', origin);
    if (self.pathname === '/oauth/token') return { records: [], body: tokenAnswer };
    for (const [name, value] of Object.entries(vendor.signed)) {
      if (request.headers[name.toLowerCase()] !== value) throw new Refused(401, `${name} is not valid`);
    }
    const body = text === '' ? {} : bodyOf(text);
    const sent = (name: string): string | undefined => self.searchParams.get(name) ?? placeIn(body, name);
    const found = routes.flatMap((route) => {
      const match = request.method === route.method ? route.path.exec(self.pathname) : null;
      if (match === null) return [];
      const inPath = Object.fromEntries(
        route.names.map((name, index) => [name, decodeURIComponent(match[index + 1] ?? '')]),
      );
      const param = (name: string) => inPath[name] ?? sent(name);
      return [{ route, param }];
    });
    // `/meta/bases` is no record of the table `bases` in the base `meta`.
    const [only, other] = found.toSorted((left, right) => left.route.names.length - right.route.names.length);
    if (only === undefined) throw new Refused(404, `nothing is at ${request.method} ${self.pathname}`);
    const both = other?.route.names.length === only.route.names.length ? other.route.entity : null;
    if (both !== null) throw new Refused(500, `${only.route.entity} and ${both} both match`);
    calls += 1;
    onCall?.(calls);
    return listed(only.route, account, isOpen, { param: only.param, self, cap });
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { port } = server.address() as AddressInfo;
      try {
        const { body, headers } = answer(
          request,
          Buffer.concat(chunks).toString(),
          `http://127.0.0.1:${port}`,
        );
        send(response, 200, body, headers);
      } catch (error) {
        const status = error instanceof Refused ? error.status : 500;
        const text = error instanceof Error ? error.message : 'unknown';
        if (refusals.length < 20) refusals.push(`${status} ${request.method} ${request.url}: ${text}`);
        send(response, status, { message: text });
      }
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    port,
    calls: () => calls,
    refusals,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** What every token endpoint answers here; services that want it are signed with it. */
export const accessToken = 'made-up-access-token';
const tokenAnswer = { access_token: accessToken, token_type: 'Bearer', expires_in: 86_400 };

function routesOf({ base }: Vendor, file: PublicFile, account: Account): readonly Route[] {
  return [...account].flatMap(([entity, { listing }]) => {
    const found = file.listings.get(entity);
    if (found === undefined) return [];
    const names: string[] = [];
    const path = (base + found.path).split(/(\{[^}]+\})/).map((part) => {
      if (!part.startsWith('{')) return part.replaceAll(/[.*+?^$()|[\]\\]/g, String.raw`\$&`);
      names.push(part.slice(1, -1));
      return '([^/]+?)';
    });
    return [{ entity, listing, method: found.method, path: new RegExp(`^${path.join('')}$`), names }];
  });
}

function listed({ entity, listing }: Route, account: Account, isOpen: boolean, call: Omit<Ask, 'scope'>) {
  const { of, pages, at, each } = listing;
  const params = Object.fromEntries(
    Object.keys(of).map((name) => {
      const value = call.param(name);
      if (value === undefined) throw new Refused(400, `${entity} needs ${name}`);
      return [name, value];
    }),
  );
  const scope = scopeText(params);
  const found = account.get(entity)?.scopes.get(scope);
  if (found === undefined && !isOpen) throw new Refused(404, `${entity} has no listing for ${scope}`);
  const page = pages(found?.rows ?? [], { ...call, scope: entity + scope });
  const records = page.records.map((record) => (each === '' ? record : { [each]: record }));
  let body: JsonValue = at === '' ? records : withMember({}, at.split('.'), records);
  for (const [place, value] of Object.entries(page.members ?? {})) {
    if (isJsonObject(body)) body = withMember(body, place.split('.'), value);
  }
  return { ...page, body };
}

function withMember(body: JsonObject, [name = '', ...rest]: readonly string[], value: JsonValue): JsonObject {
  const inner = body[name];
  const under = isJsonObject(inner) ? inner : {};
  return { ...body, [name]: rest.length === 0 ? value : withMember(under, rest, value) };
}

function bodyOf(text: string): JsonObject {
  // `as`: JSON.parse gives JSON.
  const body = JSON.parse(text) as JsonValue;
  if (!isJsonObject(body)) throw new Refused(400, 'the body must be an object');
  return body;
}

function placeIn(body: JsonObject, name: string): string | undefined {
  let value: JsonValue | undefined = body;
  for (const part of name.split('.')) value = isJsonObject(value) ? value[part] : undefined;
  return value === undefined || value === null ? undefined : textOf(value);
}

function send(
  response: ServerResponse,
  status: number,
  body: JsonValue,
  headers: Page['headers'] = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}
