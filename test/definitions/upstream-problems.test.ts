import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { formatProblem } from '../../src/core/problems.ts';
import { parseDefinition } from '../../src/definitions/load-definitions.ts';
import { changes } from '../support/changes.ts';

const everyKind = new URL('../fixtures/definitions/upstream/every-kind.yaml', import.meta.url);
const fixture = readFileSync(everyKind, 'utf8');

const addresses = {
  'baseUrl: https://{shop} → baseUrl: http://{shop}': 'baseUrl: expected https: credentials are sent there',
  'shop.example/api → shop.example/{v}': 'baseUrl: expected names in the host only',
  'shop.example/api → shop.example/api/': 'baseUrl: expected no / at its end',
  'shop.example/api → shop.example/api?x=1': 'baseUrl: expected an address such as',
  'https://{shop} → https://me@{shop}': 'baseUrl: expected an address such as',
  'https://{shop} → https://{shop': 'baseUrl: expected every { to begin a name',
  'https://{shop} → https://{shp}': 'baseUrl: no such host variable: "shp"; did you mean "shop"?',
  "pattern: '[a-z0-9-]{1,40}' → pattern: '.+'":
    'host.shop.pattern: expected a pattern that matches host names',
  "pattern: '[a-z0-9-]{1,40}' → pattern: '[^/]+'": 'host.shop.pattern: expected a pattern that matches host',
  "pattern: '[a-z0-9-]{1,40}' → pattern: '[a-z]*'":
    'host.shop.pattern: expected a pattern that does not match an empty',
  "pattern: '[a-z0-9-]{1,40}' → pattern: 'a(b'": 'host.shop.pattern: expected a regular expression',
  "pattern: '[a-z0-9-]{1,40}' → pattern: 'us(?<!a)1'":
    'host.shop.pattern: expected a regular expression without look-around and back-references',
  "pattern: '[a-z0-9-]{1,40}' → pattern: '(a|b)\\1'": 'host.shop.pattern: expected a regular expression',
  "pattern: '[a-z0-9-]{1,40}' → pattern: '[a-z]{1,999}'":
    'host.shop.pattern: expected fewer repetitions in it',
  '{ field: shop_name } → { field: shop_nam }':
    'host.shop.from.0.field: no such field of the credentials: "shop_nam"; did you mean "shop_name"?',
  '{ field: shop_name } → { field: shop_name, text: x }':
    'host.shop.from.0: expected field or text, one of the two',
  '{ text: eu } → { field: region }': 'host.zone.from: expected a source that the credentials "Token" have',
};

const credentials = {
  "scheme: OAuth → scheme: 'OA th'": 'auth.OAuth.scheme: expected a word',
  'tokenUrl: https://login.shop.example/token → tokenUrl: https://{shop}.shop.example/token':
    'auth.OAuth.tokenUrl: expected no host variable that comes with the token, shop does',
  '    Key: { kind: basic →     Keys: { kind: basic':
    'auth.Keys: no such title among the credentials: "Keys"; did you mean "Key"?',
  'password: { field: api_key } → password: { field: api_kee }':
    'auth.Key.password.field: no such field of the credentials "Key": "api_kee"; did you mean "api_key"?',
  'password: { field: api_key } → password: { field: region }':
    'auth.Key.password.field: expected a required field',
  'password: { field: api_key } → password: { field: api_key, afterLast: a, suffix: b }':
    'auth.Key.password: expected afterLast or suffix, not both',
  'keeps: { instance: instance.url }\n    Client → keeps: { instnce: instance.url }\n    Client':
    'auth.OAuth.keeps.instnce: no such field of the credentials "OAuth": "instnce"; did you mean "instance"?',
  'keeps: { instance: instance.url }\n    Client → keeps: { refresh_token: instance.url }\n    Client':
    'auth.OAuth.keeps.refresh_token: expected another field than refresh_token',
  'secret: {}, instance: { secret: false, required: false } → secret: {}, instance: { secret: false }':
    'auth.Client.keeps.instance: expected required: false on instance',
  'clientSecret: { field: secret } → clientSecret: { field: instance }':
    'auth.Client.clientSecret.field: expected a required field',
  'format: json\n      scope → format: jsn\n      scope':
    'auth.Client.format: expected one of form, json, got "jsn"',
  'origin: true → origin: false': 'host.shop.from.1.origin: expected one of true',
  'field: instance, origin: true → text: a, origin: true':
    'host.shop.from.1: expected origin beside field only',
  'kind: basic → kind: basics':
    'auth.Key.kind: expected kind: none, basic, bearer, header, query, body, refresh, clientCredentials, password, login or authorizationCode',
  'https://{zone}.people.example/agree → https://{zne}.people.example/agree':
    'auth.Person.authorizeUrl: no such host variable: "zne"; did you mean "zone"?',
  'clientId: { field: app } → clientId: { field: ap }':
    'auth.Person.clientId.field: no such field of the credentials "Person": "ap"; did you mean "app"?',
  'style: body\n      format: form\n      params: { access_type → style: basic\n      format: form\n      params: { access_type':
    'auth.Person.style: expected body: basic authentication takes a clientSecret',
  'name: X-Api-Key → name: Host': 'auth.Header.name: Host is set by the program',
  "name: access_key → name: 'access key'": 'auth.Query.name: expected a letter',
  'accessToken: access_token → accessToken: refresh_token':
    'auth.OAuth.refreshToken: expected another field than accessToken',
  'style: basic → style: basicly':
    'auth.OAuth.style: expected one of basic, body, got "basicly"; did you mean "basic"?',
};

const answers = {
  'message: [error.text] → message: [error.]': 'message.0: expected names joined by dots',
  "{ path: ok, is: false → { path: '', is: false": 'failed.path: expected names joined by dots',
  '{ seconds: 30 } → { seconds: 30, header: X-Wait }':
    'retryAfter.1: expected header and format, or seconds alone',
  'retryAfter: [{ header: X-Retry-At, format: unix → retryAfter: [{ header: X-Retry-At, format: epoch':
    'retryAfter.0.format: expected one of seconds, milliseconds, unix, httpDate, got "epoch"',
  'then: throttled → then: throttle': 'errors.0.then: expected one of',
  '{ status: 403, where: { error.code: slow }, then: throttled } → { then: throttled }':
    'errors.0: expected a condition',
  'entity: orders } → entity: order }': 'errors.1.entity: no such entity: "order"; did you mean "orders"?',
  'identity: account.id → identity: account..id': 'check.identity: expected names joined by dots',
  "X-Version: '7' → Authorization: '7'": 'headers.Authorization: Authorization is set by the program',
  'X-Shop: { field: shop_name } → X-Shop: { field: shop }':
    'headers.X-Shop.field: no such field of the credentials: "shop"',
  'X-Shop: { field: shop_name } → X-Shop: [shop_name]': 'headers.X-Shop: expected a text, or a value of the',
  'X-Shop: { field: shop_name } → X-Shop: { field: a, text: b }': 'headers.X-Shop: expected field or text',
  'X-Shop: { field: shop_name } → X-Api-Key: { field: shop_name }':
    'headers.X-Api-Key: X-Api-Key is also sent',
  'X-Version: \'7\' → X-Version: "7\\n8"': 'headers.X-Version: expected a value of printable ASCII',
  'timeoutMs: 30000, max → timeoutMs: 10, max': 'limits.timeoutMs: expected at least 1000, got 10',
};

const requests = {
  "      get: { path: '/orders/{order_id}' }\n → ":
    'entities.orders: is missing get: the entity has this action',
  "get: { path: '/orders/{order_id}' } → gett: { path: '/orders/{order_id}' }":
    'entities.orders.gett: unknown key; did you mean "get"?',
  "path: '/orders/{order_id}' → path: '/orders/{order}'":
    'entities.orders.get.path: no such parameter: "order"',
  "path: '/orders/{order_id}' → path: 'orders/{order_id}'":
    'entities.orders.get.path: expected a / at its beginning',
  "path: '/orders/{order_id}' → path: '/a/../{order_id}'": 'entities.orders.get.path: expected no empty part',
  "path: '/orders/{order_id}' → path: '/a?id={order_id}'":
    'entities.orders.get.path: expected letters, digits and signs of a path',
  "path: /orders, → path: '/orders/{state}',": 'entities.orders.list.path: expected required: true on state',
  '    events:\n      list:\n →     event:\n      list:\n':
    'entities.event: no such entity: "event"; did you mean "events"?',
  'path: /payments/ → path: /payments//': 'entities.payments.list.path: expected no empty part',
  'list[*].payment → list[*]': 'entities.payments.list.records: expected a member behind [*]',
  'list[*].payment → list[*].a[*].b[*].c': 'entities.payments.list.records: expected [*] twice at most',
  'list[*].payment → list[*].a..b': 'entities.payments.list.records: expected names joined by dots',
  'records: { path: data.totals, one: true } → records: { path: data.totals, one: false }':
    'entities.totals.list.records: expected a path such as items or list[*].customer',
  "records: 'list[*].payment' → records: { path: payment, one: true }":
    'entities.payments.list.records: one record expects pagination of kind single, got pageToken',
  'limit: { as: per_page } → limt: { as: per_page }':
    'list.params.limt: no such parameter: "limt"; did you mean "limit"?',
  '{ as: per_page } → { as: state }': 'goes where',
  'omit: [all] → omit: [5]': 'list.params.state.omit.0: state: expected one of',
  '{ list: repeat } → { list: repeats }':
    'list.params.labels.list: expected one of comma, repeat, brackets, got "repeats"',
  '{ as: per_page } → { at: a.b }': 'list.params.limit.at: belongs to a parameter in a body',
  'method: POST, → method: GET,': 'entities.events.list.params.since.at: belongs to a parameter in a body',
  "url: file.url → url: 'file..url'": 'entities.orders.download.url: expected names joined by dots',
  'download: { → upload: {': 'entities.orders.upload: unknown key',
};

const paging = {
  'kind: linkHeader, keep: [after] → kind: offset':
    "entities.orders.list.paging.kind: expected kind: none, cursor, nextUrl or linkHeader; pages by number, by offset and by the last record are kinds of the entity's pagination",
  'kind: linkHeader → kind: linkheader':
    'entities.orders.list.paging.kind: expected kind: none, cursor, nextUrl or linkHeader',
  'keep: [after] → keep: all': 'entities.orders.list.paging.keep: expected names of parameters, or any',
  'query: { fields: id }, identity → headers: { Host: elsewhere }, identity':
    'check.headers.Host: Host is set by the program and by auth: leave it out',
  'keep: [after] → keep: []': 'entities.orders.list.paging.keep: expected at least 1 elements',
  "keep: [after] → keep: ['a&b']": 'entities.orders.list.paging.keep.0: expected a letter',
  'metadata: { links: links } → metadata: { next: links }':
    'entities.orders.list.metadata.next: is written by paging',
  'paging: { kind: cursor, token: next.token } → paging: { kind: none }':
    'entities.events.list.metadata: expected one of next, the tokenKeys',
  'total: { header: X-Total } → total: { header: X-Total, path: total }':
    'entities.notes.list.metadata.total: expected path or header, one of the two',
  'metadata: { total: { header: X-Total } } → paging: { kind: cursor, token: next }':
    'entities.notes.list.paging.kind: cursor expects pagination by pageToken, got offset',
};

describe('an upstream', () => {
  it('may have a pattern that takes others exponential time', () => {
    const changed = fixture.replace("pattern: '[a-z0-9-]{1,40}'", "pattern: '(a+)+b'");
    expect(changed).not.toBe(fixture);
    expect(problemsOf(changed)).toEqual([]);
  });

  it('that uses every kind of everything has nothing wrong with it', () => {
    expect(problemsOf(fixture)).toEqual([]);
  });

  it.each([addresses, credentials, answers, requests, paging].flatMap(changes))(
    'reports what is wrong with it: %s',
    (_change, from, to, expected) => {
      const changed = fixture.replace(from, () => to);
      expect(changed).not.toBe(fixture);
      const problems = problemsOf(changed);
      expect(problems.join('\n')).toContain(expected); // With its line, and at its place:
      expect(problems.filter((problem) => !/^:\d+: upstream\./.test(problem))).toEqual([]);
    },
  );
});

function problemsOf(text: string): readonly string[] {
  return parseDefinition('', text).problems.map(formatProblem);
}
