import * as z from 'zod';
import { createConnector, deleteConnector, updateConnector } from './change-connectors.ts';
import { checkConnector, checkNewConnector } from './check-connectors.ts';
import { definitionEndpoints } from './definition-endpoints.ts';
import { type Endpoint, endpoint } from './endpoint.ts';
import { execute } from './execute-endpoint.ts';
import { inspectConnector, listConnectors, showConnector } from './show-connectors.ts';
import { tokenEndpoints } from './token-endpoints.ts';
import { workspaceEndpoints } from './workspace-endpoints.ts';

const neverStale = { 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' };

const showDocument = endpoint({
  method: 'GET',
  path: '/openapi.json',
  operationId: 'getOpenApiDocument',
  tag: 'Reference',
  summary: 'Get the OpenAPI document',
  description: 'All endpoints with their shapes, for tools.',
  access: 'public',
  success: {
    status: 200,
    description: 'An OpenAPI 3.1 document.',
    body: z.record(z.string(), z.unknown()),
  },
  handle: (_request, _call, { openApi }) => ({
    kind: 'text',
    text: openApi,
    headers: { ...neverStale, 'content-type': 'application/json; charset=utf-8' },
  }),
});

const showStartPage = endpoint({
  method: 'GET',
  path: '/',
  operationId: 'getStartPage',
  tag: 'Reference',
  summary: 'Find the OpenAPI document',
  description: 'A line of HTML for a browser that opens the base URL: it links `/openapi.json`.',
  access: 'public',
  success: { status: 200, description: 'The page.', body: z.string(), mediaType: 'text/html' },
  handle: () => ({
    kind: 'text',
    text: '<!doctype html><html lang="en"><title>Connector Execution API</title><h1>Connector Execution API</h1><p><a href="/openapi.json">/openapi.json</a> describes it.</p></html>\n',
    headers: {
      ...neverStale,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy':
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'referrer-policy': 'no-referrer',
    },
  }),
});

/** All that the service answers, in the order of the document. */
export const apiEndpoints: readonly Endpoint[] = [
  ...tokenEndpoints,
  ...definitionEndpoints,
  listConnectors,
  createConnector,
  checkNewConnector,
  showConnector,
  updateConnector,
  deleteConnector,
  checkConnector,
  inspectConnector,
  execute,
  ...workspaceEndpoints,
  showDocument,
  showStartPage,
];
