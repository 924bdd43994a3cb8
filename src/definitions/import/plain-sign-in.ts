import type { JsonObject, JsonValue } from '../../core/json.ts';
import { isJsonObject } from '../../core/json.ts';
import { listIn, objectIn, prefix, textIn } from './parts.ts';
import type { Schemas } from './schemas.ts';

/**
 * The security schemes with which all these operations can be called, each with the credentials that it takes. Where
 * the file asks for several at once, those besides the first are sent as headers.
 */
export function plainSchemes(
  root: JsonObject,
  operations: readonly JsonObject[],
  schemas: Schemas,
): JsonObject {
  const declared = objectIn(root, 'components', 'securitySchemes');
  const [first, ...others] = operations.map((operation) => requirementsOf(operation, root, declared));
  const common = (first ?? []).filter((names) =>
    others.every((all) => all.some((one) => one.toSorted().join(' ') === names.toSorted().join(' '))),
  );
  return Object.fromEntries(
    common.flatMap((names) => {
      const parts = names.map((name) => [name, schemas.resolve(declared[name])] as const);
      // A key in a header can be sent beside any other scheme, so it is never the first one.
      const main = parts.find(([, scheme]) => !isHeader(scheme)) ?? parts[0];
      if (main === undefined) return [];
      const beside = parts.filter((one) => one !== main);
      return waysOf(main[0], main[1]).map(([name, scheme]) => [name, withHeaders(scheme, beside)]);
    }),
  );
}

/** Names of schemes that are needed together, by each way; without a word about it, each scheme is one. */
function requirementsOf(
  operation: JsonObject,
  root: JsonObject,
  declared: JsonObject,
): readonly (readonly string[])[] {
  const own = Array.isArray(operation['security']) ? operation : root;
  if (!Array.isArray(own['security'])) return Object.keys(declared).map((name) => [name]);
  const stated = listIn(own, 'security').map((one) => (isJsonObject(one) ? Object.keys(one) : []));
  // An operation that needs none can be called with any.
  if (stated.every((names) => names.length === 0)) {
    return Object.keys(declared).map((name) => [name]);
  }
  return stated.filter((names) => names.length > 0);
}

function isHeader(scheme: JsonObject): boolean {
  return textIn(scheme, 'type') === 'apiKey' && textIn(scheme, 'in') === 'header';
}

/** One scheme, or one for each of its flows. */
function waysOf(name: string, scheme: JsonObject): readonly (readonly [string, JsonObject])[] {
  const kind = textIn(scheme, 'type');
  if (kind === 'http') {
    const isBasic = textIn(scheme, 'scheme')?.toLowerCase() === 'basic';
    return [
      [
        name,
        withConfig(scheme, isBasic ? { username: 'username', password: 'password' } : { token: 'token' }),
      ],
    ];
  }
  if (kind === 'apiKey') return [[name, withConfig(scheme, { api_key: 'api_key' })]];
  if (kind !== 'oauth2') return [[name, scheme]];
  const { deviceAuthorization, ...flows } = objectIn(scheme, 'flows');
  return Object.entries(flows).map(([flow, part]) => {
    // A code on another device is one more way to the tokens of a code in the browser.
    const besides = flow === 'authorizationCode' && deviceAuthorization !== undefined;
    const own = { ...scheme, flows: { [flow]: part, ...(besides ? { deviceAuthorization } : {}) } };
    const client = { client_id: 'client_id', client_secret: 'client_secret' };
    const mapping =
      flow === 'clientCredentials'
        ? client
        : flow === 'authorizationCode'
          ? { ...client, refresh_token: 'refresh_token' }
          : { access_token: 'access_token' };
    return [flow === 'authorizationCode' ? name : `${name} ${flow}`, withConfig(own, mapping)];
  });
}

/** `mapping`: what the scheme needs, and the field of the credentials that has it. */
function withConfig(scheme: JsonObject, mapping: Readonly<Record<string, string>>): JsonObject {
  const config = {
    required: Object.values(mapping),
    properties: Object.fromEntries(Object.values(mapping).map((field) => [field, {}])),
    auth_mapping: Object.fromEntries(Object.entries(mapping).map(([part, field]) => [part, `\${${field}}`])),
  };
  return { ...scheme, [`${prefix}auth-config`]: config };
}

function withHeaders(scheme: JsonObject, beside: readonly (readonly [string, JsonObject])[]): JsonObject {
  if (beside.length === 0) return scheme;
  const config = objectIn(scheme, `${prefix}auth-config`);
  const fields = beside.map(([name, one]) => [fieldName(name), textIn(one, 'name') ?? ''] as const);
  const headers = fields.map(([field, header], at): readonly [string, JsonValue] => [
    header,
    // Only keys in headers can be sent beside the first scheme. An empty template refuses any other.
    isHeader(beside[at]?.[1] ?? {}) ? `{{ ${field} }}` : '',
  ]);
  const properties = Object.fromEntries(fields.map(([field]) => [field, {}]));
  return {
    ...scheme,
    [`${prefix}auth-config`]: {
      ...config,
      required: [...listIn(config, 'required'), ...Object.keys(properties)],
      properties: { ...objectIn(config, 'properties'), ...properties },
      additional_headers: Object.fromEntries(headers),
    },
  };
}

/** `X-App.Key`: `x_app_key`, as the name of a field of credentials. */
function fieldName(name: string): string {
  return (
    name
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_')
      .replaceAll(/^_+|_+$/g, '')
      .replace(/^(?=\d)/, 'key_') || 'key'
  );
}
