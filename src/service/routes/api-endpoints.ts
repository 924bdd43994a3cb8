import * as z from 'zod';
import { createConnector, deleteConnector, updateConnector } from './change-connectors.ts';
import { checkConnector, checkNewConnector } from './check-connectors.ts';
import { connectorsPageEndpoints } from './connectors-page.ts';
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
  handle: (_request, _call, { reference }) => ({
    kind: 'text',
    text: reference.document,
    headers: { ...neverStale, 'content-type': 'application/json; charset=utf-8' },
  }),
});

const page = {
  method: 'GET',
  tag: 'Reference',
  access: 'public',
  success: { status: 200, description: 'The page.', body: z.string(), mediaType: 'text/html' },
  handle: (_request, { baseUrl }, { reference }) => ({
    kind: 'text',
    text: reference.page(baseUrl),
    headers: {
      ...neverStale,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': reference.contentSecurityPolicy,
      'referrer-policy': 'no-referrer',
    },
  }),
} as const satisfies Partial<Parameters<typeof endpoint>[0]>;

const showPage = endpoint({
  ...page,
  path: '/docs',
  operationId: 'getReferencePage',
  summary: 'Read the reference',
  description: 'The same for people: one page without scripts and without anything from elsewhere.',
});

const showStartPage = endpoint({
  ...page,
  path: '/',
  operationId: 'getStartPage',
  summary: 'Read the reference at the address of the service',
  description: 'The same page as `/docs`, for a browser that opens the base URL.',
});

const referenceEndpoints: readonly Endpoint[] = [
  showDocument,
  showPage,
  showStartPage,
  ...connectorsPageEndpoints,
];

/** All that the service answers, in the order of the reference. */
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
  ...referenceEndpoints,
];
