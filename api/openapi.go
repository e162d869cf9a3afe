package api

import (
	_ "embed"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// schemas are the shapes that routes name, in JSON Schema.
//
//go:embed schemas.json
var schemas []byte

type obj = map[string]any

// buildOpenAPI describes the table of routes.
func buildOpenAPI(version string, keys bool) ([]byte, error) {
	paths := map[string]obj{}
	for _, rt := range routes {
		if paths[rt.path] == nil {
			paths[rt.path] = obj{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = operation(rt, keys)
	}
	doc := obj{
		"openapi": "3.1.0",
		"info":    obj{"title": "orderd", "version": version, "description": "An order pipeline: orders in, statuses out."},
		"paths":   paths,
		"components": obj{
			"schemas": jsontext.Value(schemas),
			"securitySchemes": obj{
				"bearer": obj{"type": "http", "scheme": "bearer"},
				"header": obj{"type": "apiKey", "in": "header", "name": "X-API-Key"},
			},
		},
	}
	return json.Marshal(doc, json.Deterministic(true))
}

func operation(rt *route, keys bool) obj {
	op := obj{"summary": rt.does, "operationId": operationID(rt), "responses": responses(rt)}
	if params := operationParams(rt); len(params) > 0 {
		op["parameters"] = params
	}
	if rt.body != "" {
		content := obj{jsonBody: obj{"schema": ref(rt.body)}}
		if rt.lines {
			content[linesBody] = obj{"schema": obj{"type": "string", "description": "one element a line"}}
		}
		op["requestBody"] = obj{"required": !optionalBody(rt.body), "content": content}
	}
	if keys && !rt.open {
		op["security"] = []obj{{"bearer": []string{}}, {"header": []string{}}}
	}
	return op
}

// optionalBody says whether a body of this schema may be left out.
func optionalBody(schema string) bool {
	return schema == "Empty" || schema == "Reason" || schema == "Ship"
}

// operationID makes a name out of method and path: postOrdersIdShip.
func operationID(rt *route) string {
	id := strings.ToLower(rt.method)
	for _, word := range strings.FieldsFunc(rt.path, func(c rune) bool { return strings.ContainsRune("/{}-.", c) }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

func operationParams(rt *route) []obj {
	var params []obj
	for _, part := range strings.Split(rt.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			params = append(params, obj{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": ref("ID")})
		}
	}
	for _, p := range rt.query {
		schema := any(jsontext.Value(p.schema))
		if p.repeats {
			schema = obj{"type": "array", "items": schema}
		}
		params = append(params, obj{"name": p.name, "in": "query", "description": p.means, "schema": schema})
	}
	header := func(name, means string) {
		params = append(params, obj{"name": name, "in": "header", "description": means, "schema": obj{"type": "string"}})
	}
	if rt.body == "NewOrder" || rt.body == "OrderBatch" {
		header("Idempotency-Key", "1 to 255 printable ASCII characters; the same key and body give the first answer again")
	}
	if rt.stream {
		header("Last-Event-ID", "go on after the event of this number")
	}
	return params
}

func responses(rt *route) obj {
	code, schema, _ := strings.Cut(rt.ok, " ")
	out := obj{code: answer(code, schema)}
	if rt.also != "" {
		out[rt.also] = answer(rt.also, schema)
	}
	for _, code := range strings.Fields(rt.fails) {
		if rt.path == "/readyz" {
			out[code] = answer(code, schema)
			continue
		}
		out[code] = answer(code, "Problem")
	}
	out["default"] = answer("", "Problem")
	return out
}

func answer(code, schema string) obj {
	means := "any other failure"
	if n, err := strconv.Atoi(code); err == nil {
		means = http.StatusText(n)
	}
	media, content := "application/json", obj{}
	switch {
	case schema == "Problem":
		media, content["schema"] = "application/problem+json", ref(schema)
	case strings.Contains(schema, "/"): // a media type of its own
		media = schema
	default:
		content["schema"] = ref(schema)
	}
	return obj{"description": means, "content": obj{media: content}}
}

func ref(schema string) obj { return obj{"$ref": "#/components/schemas/" + schema} }
