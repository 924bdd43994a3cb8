import type { Definition } from '../../definitions/definition.ts';
import type { Reference } from '../routes/api-parts.ts';
import type { Endpoint } from '../routes/endpoint.ts';
import type { ConnectorType } from './connector-types.ts';
import type { Operation } from './describe-operation.ts';
import { markup, nothing, type Markup } from './markup.ts';
import { openApiDocument, type OpenApiDocument } from './open-api-document.ts';
import { everywhereTable, operationSection } from './operation-section.ts';
import { pageStyle, pageStyleHash } from './page-style.ts';

interface Listed {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

/** The document as one page of HTML, complete in itself. */
export function referencePage(document: OpenApiDocument, baseUrl: string): string {
  const listed = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ method, path, operation })),
  );
  const groups = document.tags.map((tag) => ({
    ...tag,
    listed: listed.filter(({ operation }) => operation.tags.includes(tag.name)),
  }));
  const { title, description } = document.info;
  return `<!doctype html>\n${
    markup`<html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        ${{ text: `<style>${pageStyle}</style>` }}
      </head>
      <body>
        <div class="page">
          <nav aria-label="Endpoints">
            <a href="#top"><strong>${title}</strong></a>
            ${groups.map(
              ({ name, listed: inGroup }) =>
                markup`<h2>${name}</h2>
                  <ul>
                    ${inGroup.map(menuEntry)}
                  </ul> `,
            )}
          </nav>
          <main id="top">
            <h1>${title}</h1>
            <p>${description} The same for tools: <a href="/openapi.json">/openapi.json</a>.</p>
            ${start(baseUrl)}
            ${groups.map(
              (group) =>
                markup`<h2 id="${group.name}">${group.name}</h2>
                  <p>${group.description}</p>
                  ${group.listed.map((one) => operationSection({ ...one, document, baseUrl }))}
                  ${group.name === 'Execute' ? document['x-connector-types'].map(connectorTypeSection) : nothing}`,
            )}
          </main>
        </div>
      </body>
    </html> `.text
  }`;
}

function menuEntry({ method, operation }: Listed): Markup {
  return markup`<li>
    <span class="method ${method}">${method === 'delete' ? 'DEL' : method.toUpperCase()}</span>
    <a href="#${operation.operationId}">${operation.summary}</a>
  </li> `;
}

function start(baseUrl: string): Markup {
  const token = `TOKEN=$(curl -s '${baseUrl}/api/v1/account/applications/token' \\
  -H 'Content-Type: application/json' \\
  -d '{"client_id":"'"$CLIENT_ID"'","client_secret":"'"$CLIENT_SECRET"'"}' | jq -r .access_token)`;
  return markup`<p>
      Every endpoint but the first and this reference wants a token. The examples below take it from
      <code>$TOKEN</code>:
    </p>
    <pre><code>${token}</code></pre>
    <p>
      What goes wrong is answered with
      <code>{"message": …, "errors": [{"field", "message", "error_code", "details"}]}</code> and a status
      code. Each endpoint lists its own; these come everywhere:
    </p>
    ${everywhereTable()}`;
}

type TypeAction = ConnectorType['actions'][number];

/** The entities and actions of a connector type with their parameters, folded away until it is wanted. */
function connectorTypeSection({ name, title, actions }: ConnectorType): Markup {
  return markup`<details id="type-${name}">
    <summary>Entities and actions of ${title} (<code>${name}</code>)</summary>
    <div class="wide" tabindex="0">
      <table class="actions">
        ${actions.map(actionRow)}
      </table>
    </div>
  </details> `;
}

function actionRow({ entity, action, params, fields }: TypeAction): Markup {
  return markup`<tr>
    <td><code>${entity}</code></td>
    <td><code>${action}</code></td>
    <td>
      ${params.map(paramText)}
      ${fields.length === 0 ? nothing : markup`<div class="type">Fields: ${fields.join(', ')}</div>`}
    </td>
  </tr> `;
}

function paramText({
  name,
  type,
  required,
  enum: values,
  maximum,
  default: preset,
}: TypeAction['params'][number]): Markup {
  const facts = [
    values === null ? type : values.join(' or '),
    ...(preset === null ? [] : [`default ${String(preset)}`]),
    ...(maximum === null ? [] : [`at most ${maximum}`]),
  ];
  const mark = required ? markup` <span class="required">required</span>` : nothing;
  return markup`<div><code>${name}</code> <span class="type">${facts.join(', ')}</span>${mark}</div> `;
}

export function makeReference(endpoints: readonly Endpoint[], definitions: Iterable<Definition>): Reference {
  const document = openApiDocument(endpoints, definitions);
  return {
    document: JSON.stringify(document, null, 2),
    page: (baseUrl) => referencePage(document, baseUrl),
    contentSecurityPolicy: `default-src 'none'; style-src '${pageStyleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}
