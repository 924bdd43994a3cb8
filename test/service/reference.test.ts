import { readFileSync } from 'node:fs';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { servedDefinition } from '../../src/definitions/definition.ts';
import { openApiDocument } from '../../src/service/reference/open-api-document.ts';
import { referencePage } from '../../src/service/reference/reference-page.ts';
import { apiEndpoints } from '../../src/service/routes/api-endpoints.ts';
import { definitions, serveApi, type ServedApi } from '../support/service/served-api.ts';

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi();
});
afterAll(() => api.service.close());

const offered = [...definitions.values()].map(servedDefinition);
const document = openApiDocument(apiEndpoints, offered);
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

describe('the OpenAPI document', () => {
  it('is served without a token', async () => {
    const response = await fetch(`${api.service.url}/openapi.json`);
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(document)));
  });

  // Proves specification 1.1
  it('has every route of the server, and the server every operation of the document', () => {
    const described = operations.map(
      ({ path, method }) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
    );
    expect(described.toSorted()).toEqual(api.service.routes.toSorted());
  });

  // Proves specification 1.1, 4.5.4, 6.1
  it('has the operations of the API and no others, so no events, callbacks and notifications', () => {
    const api = operations.filter(({ path }) => path.startsWith('/api/v1/'));
    expect(api.map(({ path, method }) => `${method} ${path.slice('/api/v1'.length)}`).toSorted()).toEqual([
      'delete /integrations/connectors/{id}',
      'delete /workspaces/{id}',
      'get /account/applications/scoped-token/info',
      'get /integrations/connectors',
      'get /integrations/connectors/{id}',
      'get /integrations/connectors/{id}/inspect',
      'get /integrations/definitions/sources',
      'get /integrations/definitions/sources/{id}',
      'get /workspaces',
      'get /workspaces/stats',
      'get /workspaces/{id}',
      'post /account/applications/scoped-token',
      'post /account/applications/token',
      'post /integrations/connectors',
      'post /integrations/connectors/check',
      'post /integrations/connectors/{id}/check',
      'post /integrations/connectors/{id}/execute',
      'put /integrations/connectors/{id}',
      'put /workspaces/{id}',
    ]);
    expect(JSON.stringify(document)).not.toMatch(/"(webhooks|callbacks)"/);
  });

  // Proves specification 9.1
  it('has every endpoint under /api/v1, but for itself', () => {
    const others = operations.filter(({ path }) => !path.startsWith('/api/v1/')).map(({ path }) => path);
    expect(others.toSorted()).toEqual([
      '/',
      '/connectors',
      '/docs',
      '/icon.svg',
      '/openapi.json',
      '/style.css',
    ]);
  });

  it('says what OpenAPI 3.1 wants of a document', () => {
    expect(document.openapi).toMatch(/^3\.1\.\d+$/);
    expect(Object.keys(document.components.securitySchemes)).toEqual(['bearer', 'basic']);
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const tags: readonly string[] = document.tags.map(({ name }) => name);
    for (const { path, method, operation } of operations) {
      expect(path).toMatch(/^\/[\w/.{}-]*$/);
      expect(['get', 'post', 'put', 'delete']).toContain(method);
      expect(operation.tags.every((tag) => tags.includes(tag))).toBe(true);
      const places = operation.parameters.map(({ in: place, name }) => `${place} ${name}`);
      expect(new Set(places).size).toBe(places.length);
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
      const declared = operation.parameters.filter(({ in: place }) => place === 'path');
      expect(declared.map(({ name, required }) => [name, required])).toEqual(
        inPath.map((name) => [name, true]),
      );
      expect(operation.requestBody === undefined || ['post', 'put'].includes(method)).toBe(true);
      expect(Object.keys(operation.responses).filter((status) => status.startsWith('2'))).toHaveLength(1);
      for (const [status, { description, content }] of Object.entries(operation.responses)) {
        expect([path, status, description]).toEqual([
          path,
          expect.stringMatching(/^[2-5]\d\d$/),
          expect.stringMatching(/\w/),
        ]);
        expect(Object.keys(content).length).toBeGreaterThan(0);
      }
    }
  });

  it('passes the strict rules of Redocly’s linter, all of them', async () => {
    const config = await createConfig({ extends: ['recommended-strict'] });
    const problems = await lintFromString({
      source: JSON.stringify(document),
      absoluteRef: '/openapi.json',
      config,
    });
    expect(
      problems.map(({ ruleId, message, location: [at] }) => `${ruleId}: ${message} at ${at?.pointer ?? ''}`),
    ).toEqual([]);
  });

  it('names the license of the program', () => {
    const { license } = JSON.parse(readFileSync('package.json', 'utf8')) as { readonly license: string };
    expect(document.info.license.identifier).toBe(license);
  });

  it('refers to schemas that are there, to each of them, and nowhere else', () => {
    const text = JSON.stringify(document);
    const refs = [...text.matchAll(/"\$ref":"([^"]*)"/g)].map(([, ref = '']) => ref);
    const known = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`);
    expect([...new Set(refs)].toSorted()).toEqual(known.toSorted());
    expect(text).not.toContain('$defs');
    expect(text).not.toContain('$schema');
  });

  it('says which endpoints need a token and lists 401, 403 and 429 accordingly', () => {
    for (const { operation } of operations) {
      const access = operation['x-access'];
      const isPublic = access === 'public';
      const byBrowsers = access === 'browser' ? [{ basic: [] }] : [];
      expect(operation.security).toEqual(isPublic ? [] : [{ bearer: [] }, ...byBrowsers]);
      const statuses = Object.keys(operation.responses);
      expect(statuses).toEqual(expect.arrayContaining(['421', '429', '500']));
      if (!isPublic) expect(statuses).toEqual(expect.arrayContaining(['401', '403']));
    }
  });

  it('gives examples that the shapes take', () => {
    for (const { operationId, request, example } of apiEndpoints) {
      for (const [shape, value] of [
        [request.path, example.path],
        [request.query, example.query],
        [request.body, example.body],
      ] as const) {
        if (shape === undefined || value === undefined) continue;
        expect([operationId, shape.safeParse(value).error?.issues ?? []]).toEqual([operationId, []]);
      }
      expect([operationId, request.body === undefined]).toEqual([operationId, example.body === undefined]);
    }
  });
});

describe('the reference page', () => {
  it('shows every endpoint with who may call it, its parameters, its answers and a command', () => {
    const page = referencePage(document, 'http://localhost:1');
    for (const { path, method, operation } of operations) {
      const section = page.split(`<section id="${operation.operationId}">`)[1]?.split('</section>')[0] ?? '';
      expect([path, section.includes(`<code>${path}</code>`)]).toEqual([path, true]);
      expect(section).toContain(method.toUpperCase());
      expect(section).toMatch(/No token is needed|For application tokens|For scoped tokens/);
      expect(section).toContain('curl -s');
      expect(section).toContain('http://localhost:1/');
      for (const { name } of operation.parameters) expect(section).toContain(`<code>${name}</code>`);
      expect(page).toContain(`href="#${operation.operationId}"`);
    }
  });

  it('lists the entities, actions, parameters and searchable fields of every connector type', () => {
    const page = referencePage(document, 'http://localhost:1');
    for (const { name, entities } of offered) {
      const section = page.split(`<details id="type-${name}">`)[1]?.split('</details>')[0] ?? '';
      for (const entity of entities.values()) {
        expect(section).toContain(`<code>${entity.name}</code>`);
        for (const { params } of entity.actions.values()) {
          for (const param of params.keys()) expect(section).toContain(`<code>${param}</code>`);
        }
      }
    }
    expect(page).toContain('<code>attachment_id</code>');
  });

  it('needs no script and nothing from elsewhere, and its policy lets nothing else in', async () => {
    const response = await fetch(`${api.service.url}/docs`);
    const page = await response.text();
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(response.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[\w+/=]+'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
    );
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(page).not.toMatch(/<script|<link|<img|<iframe|\son\w+=|style=|@import|url\(/i);
  });

  it('has the very style sheet that its policy allows', async () => {
    const response = await fetch(`${api.service.url}/docs`);
    const style = /<style>([^]*?)<\/style>/.exec(await response.text())?.[1] ?? '';
    const hash = Buffer.from(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(style)));
    expect(response.headers.get('content-security-policy')).toContain(`'sha256-${hash.toString('base64')}'`);
  });

  it('has every table in a box that scrolls where the screen is narrow', () => {
    const page = referencePage(document, 'http://localhost:1');
    const tables = page.match(/<table/g) ?? [];
    expect(tables.length).toBeGreaterThan(50);
    // With the keyboard too.
    expect(page.match(/<div class="wide" tabindex="0">\s*<table/g)).toHaveLength(tables.length);
    expect(page).toMatch(/\.wide \{[^}]*overflow-x: auto;/);
    // Else the last column would be squeezed to a word a line before anything scrolls.
    expect(page).toMatch(
      /@media \(max-width: 56rem\) \{[^@]*\.wide > table:not\(\.status\) \{ min-width: 36rem; \}/,
    );
  });

  it('writes the address of the reader into its examples, as text', () => {
    const page = referencePage(document, `http://x"><script>alert('1')</script>`);
    expect(page).not.toContain('<script');
    expect(page).not.toContain(`x">`);
  });
});
