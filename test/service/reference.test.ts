import { readFileSync } from 'node:fs';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openApiDocument } from '../../src/service/reference/open-api-document.ts';
import { apiEndpoints } from '../../src/service/routes/api-endpoints.ts';
import { serveApi, type ServedApi } from '../support/service/served-api.ts';

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi();
});
afterAll(() => api.service.close());

const document = openApiDocument(apiEndpoints);
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

describe('the OpenAPI document', () => {
  it('is served without a token', async () => {
    const response = await fetch(`${api.service.url}/openapi.json`);
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(document)));
  });

  // Proves specification 1.1, 4.5.4, 6.1
  it('has the operations of the API and no others, so no events, callbacks and notifications', () => {
    const api = operations.filter(({ path }) => path.startsWith('/api/v1/'));
    expect(api.map(({ path, method }) => `${method} ${path.slice('/api/v1'.length)}`).toSorted()).toEqual([
      'delete /integrations/connectors/{id}',
      'delete /workspaces/{id}',
      'get /integrations/connectors',
      'get /integrations/connectors/{id}',
      'get /integrations/definitions/sources',
      'get /integrations/definitions/sources/{id}',
      'get /workspaces',
      'post /account/applications/scoped-token',
      'post /account/applications/token',
      'post /integrations/connectors',
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
    expect(others.toSorted()).toEqual(['/openapi.json']);
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

  it('says which endpoints need a token and lists 401, 403 and 429 accordingly', () => {
    for (const { operation } of operations) {
      const { access } = apiEndpoints.find(({ operationId }) => operationId === operation.operationId) ?? {};
      const isPublic = access === 'public';
      expect(operation.security).toEqual(isPublic ? [] : [{ bearer: [] }]);
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
