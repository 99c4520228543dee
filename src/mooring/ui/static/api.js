// Requests to mooring: the session, documents, and the stream of changes.

/** An answer that is no success. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function checked(response) {
  if (response.ok) return response.status === 204 ? null : response.json();
  let message = response.statusText;
  try {
    message = (await response.json()).message;
  } catch {
    // The body is no document of ours.
  }
  throw new ApiError(message, response.status);
}

/** Reads a document, for example `get("pods/default/web")`. */
export async function get(path, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const address = `/api/v1/${path}${words.size ? `?${words}` : ""}`;
  return checked(await fetch(address, { credentials: "same-origin" }));
}

/** Sends a command, and returns the document of its answer. */
export async function post(path, body) {
  return checked(
    await fetch(path, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

/** Exchanges the token in the address for a cookie, and removes it from the address. */
export async function openSession() {
  const token = /^#([0-9a-f]{32})$/.exec(location.hash);
  if (!token) return;
  await post("/session", { token: token[1] });
  history.replaceState(null, "", "/#/cluster");
}

/** The path of an object in a route or a request. */
export const quoted = (name) => name.split("/").map(encodeURIComponent).join("/");
