// Go's net/http with its defaults. Arguments: URL, file.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	data, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	bodies := []io.Reader{bytes.NewReader(data), io.MultiReader(bytes.NewReader(data))} // the second one in chunks
	for at, body := range bodies {
		request, err := http.NewRequest("POST", os.Args[1], body)
		if err != nil {
			panic(err)
		}
		for name, value := range map[string]string{
			"ce-specversion": "1.0", "ce-id": fmt.Sprint(at + 1), "ce-source": "/go", "ce-type": "test.sent",
			"content-type": "application/octet-stream",
		} {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		fmt.Println(at+1, response.StatusCode)
	}
}
